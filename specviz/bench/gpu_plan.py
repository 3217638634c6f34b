"""What the bench on a GPU measures: simulated sizes, context lengths, γ, repeats, time limits."""

from __future__ import annotations

from specviz.bench.compiled_target import INDUCTOR
from specviz.errors import ConfigError
from specviz.record.bodies import body_name
from specviz.record.trace import RunConfig
from specviz.values import Value

BODIES, CONTEXTS, GAMMAS = "0.5B/7B,1B/8B", "256,4096", "3,5,8"
REPEATS = 7
_QUICK = {"bodies": "1B/8B", "contexts": "256", "gammas": "5"}
_MOST_GAMMAS = 4  # the CUDA graphs of all values of γ are in memory together


class Bodies(Value):
    draft: str
    target: str

    def __str__(self) -> str:
        return f"{self.draft}/{self.target}"


class GpuPlan(Value):
    bodies: tuple[Bodies, ...]
    contexts: tuple[int, ...]  # tokens of the prompts
    gammas: tuple[int, ...]
    repeats: int
    num_tokens: int = 64  # written after each prompt
    prompts: int = 2  # of different kinds, at each context
    thresholds: tuple[float, ...] = (
        0.0,
        0.4,
    )  # confidence thresholds tried for transformers
    accounting_seconds: float = 5.0  # for timing the target alone along a run
    costs_seconds: float = 30.0  # for the step costs of a pair
    backend: str = INDUCTOR  # of torch.compile, for the compiled target

    @property
    def config(self) -> RunConfig:
        """Return greedy settings that ignore EOS."""
        return RunConfig(temperature=0.0, max_new_tokens=self.num_tokens, ignore_eos=True)

    def middle(self, context: int) -> float:
        """Return the mean context length while a text is written after ``context`` tokens."""
        return context + self.num_tokens / 2


def gpu_plan(
    *, bodies: str | None, contexts: str | None, gammas: str | None, repeats: int, quick: bool
) -> GpuPlan:
    """Return the plan from comma-separated lists; None means the default.

    Raises:
        ConfigError: A list is not valid.
    """
    usual = {"bodies": BODIES, "contexts": CONTEXTS, "gammas": GAMMAS} | (_QUICK if quick else {})
    plan = GpuPlan(
        bodies=tuple(map(_bodies, (bodies or usual["bodies"]).split(","))),
        contexts=tuple(sorted(_numbers("contexts", contexts or usual["contexts"], 1, 100_000))),
        gammas=_numbers("gammas", gammas or usual["gammas"], 1, 16),
        repeats=repeats,
        prompts=1 if quick else 2,
    )
    if len(plan.gammas) > _MOST_GAMMAS:
        raise ConfigError(
            f"--gammas lists {len(plan.gammas)} values.", remedy=f"Give {_MOST_GAMMAS} at most."
        )
    return plan


def _bodies(text: str) -> Bodies:
    parts = text.split("/")
    if len(parts) != 2:
        raise ConfigError(
            f"--bodies: {text[:40]!r} is not two sizes.", remedy="Give draft/target, such as 1B/8B."
        )
    draft, target = map(body_name, parts)
    return Bodies(draft=draft, target=target)


def _numbers(name: str, text: str, least: int, most: int) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    numbers = [int(part) if part.isascii() and part.isdecimal() else 0 for part in parts]
    if not all(least <= number <= most for number in numbers):
        raise ConfigError(
            f"--{name} is {text[:40]!r}.",
            remedy=f"Give whole numbers from {least} to {most}, such as {least},{most}.",
        )
    return tuple(dict.fromkeys(numbers))
