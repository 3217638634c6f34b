"""The question that Tune answers: which candidates, on which texts, at which temperatures and γ.

A candidate is a lane, as in a comparison: a pair and its settings. All candidates of a question are
scored on the same texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from specviz.comparison.plan import Lane, lane_labels
from specviz.errors import ConfigError
from specviz.figures.throughput import GAMMAS
from specviz.local_models.naming import with_fitting_drafter, with_head
from specviz.record.limits import LIMITS, MAX_TEXT_BUDGET
from specviz.record.prompts import SuiteItem
from specviz.record.scores import SamplingParams
from specviz.record.trace import RunConfig
from specviz.tune.methods import OWN_SETTINGS, check_method, is_plain
from specviz.values import Value

TEMPERATURES = (0.0, 0.4, 0.7, 1.0)
MAX_CANDIDATES = 9
MAX_TEXTS = 2000
MAX_TEMPERATURES = 16
_ENOUGH_TEXTS = 5


class Question(Value):
    """The candidates, prompts, temperatures and γ for which Tune computes speedups.

    ``lanes``: the candidates. Their settings may differ only in the method; length, seed, top-k,
    top-p and the rest are the same for all. ``text``: a given text to score after the prompts,
    instead of text that the target writes. ``continuations``: the number of texts that the target
    writes for each prompt at the ranked temperature. At temperature 0 these texts would be equal,
    so the target writes only one text.
    ``text_budget``: if there is only one prompt, how many seconds the target may spend on further
    continuations while the interval of the speedup is wide.
    """

    lanes: tuple[Lane, ...]
    items: tuple[SuiteItem, ...]
    temperatures: tuple[float, ...] = TEMPERATURES
    gammas: tuple[int, ...] = GAMMAS
    text: str | None = None
    continuations: int = 1
    text_budget: float = 0.0

    def __post_init__(self) -> None:
        _count("candidates", len(self.lanes), 1, MAX_CANDIDATES)
        _count("temperatures", len(self.temperatures), 1, MAX_TEMPERATURES)
        _count("texts", self.num_texts, 1, MAX_TEXTS)
        if any(each.config.forks or each.config.stop for each in self.lanes):
            raise ConfigError(
                "Tune scores whole texts, without forks and stop strings.",
                remedy="Leave out forks and stop strings.",
            )
        for each in self.lanes:
            check_candidate(each.config, self.config)
            if each.spec.served and not each.spec.has_draft:
                raise ConfigError(
                    "For a target on a server, Tune needs a draft model.",
                    remedy="Add --draft.",
                )
            if each.spec.served and not is_plain(each.config):
                raise ConfigError(
                    "For a target on a server, Tune supports only one chain of a draft model, "
                    "verified token by token.",
                    remedy="Leave out the other methods.",
                )
        if not 0 <= self.text_budget <= MAX_TEXT_BUDGET:
            raise ConfigError(
                f"The budget for more texts is {self.text_budget:g} s.",
                remedy=f"Give from 0 to {MAX_TEXT_BUDGET:,} seconds.",
            )
        for gamma in self.gammas:
            if gamma not in LIMITS["gamma"]:
                raise ConfigError(f"gamma is {gamma}.", remedy=f"Give {LIMITS['gamma']}.")
        for sampling in self.samplings:
            sampling.put_into(self.config)  # raises for a temperature out of range

    @property
    def config(self) -> RunConfig:
        return self.lanes[0].config

    @property
    def temperature(self) -> float:
        """Return the temperature at which candidates are ranked."""
        requested = self.config.temperature
        return requested if requested in self.temperatures else self.temperatures[0]

    @property
    def samplings(self) -> tuple[SamplingParams, ...]:
        config = self.config
        return tuple(
            SamplingParams(temperature=each, top_k=config.top_k, top_p=config.top_p)
            for each in self.temperatures
        )

    @property
    def num_texts(self) -> int:
        """Return how many texts are scored for one candidate."""
        more = self.continuations - 1 if self.temperature > 0 else 0
        return len(self.items) * (len(self.temperatures) + more)

    @property
    def grows(self) -> bool:
        """Return whether further continuations make the answer more precise.

        With several prompts, further continuations have little effect: the interval then covers the
        variation between prompts.
        """
        own = self.text is None and not any(each.spec.served for each in self.lanes)
        return own and len(self.items) == 1 and self.temperature > 0 and self.text_budget > 0

    @property
    def labels(self) -> tuple[str, ...]:
        return lane_labels(self.lanes)


def enough_continuations(items: Sequence[SuiteItem]) -> int:
    """Return how many different texts the target should write for each prompt.

    The interval of a speedup needs several texts. So a single prompt gets several texts, and each
    of several prompts gets one text.
    """
    return _ENOUGH_TEXTS if len(items) == 1 else 1


def with_draft(default: Lane, draft: str, target: str) -> Lane:
    """Return a pair and settings like ``default``, but with this draft and target."""
    spec = with_head(replace(default.spec, name=None, draft=draft, target=target, head=""))
    return replace(default, spec=spec, config=with_fitting_drafter(default.config, spec))


def check_candidate(config: RunConfig, like: RunConfig) -> None:
    """Raise ConfigError if the method is unsupported or another setting differs from ``like``."""
    check_method(config)
    for name in (each.name for each in fields(RunConfig) if each.name not in OWN_SETTINGS):
        if getattr(config, name) != getattr(like, name):
            raise ConfigError(
                f"A candidate has a different {name}.",
                remedy="Only the pair, the simulated sizes and the method may differ between "
                "candidates.",
            )


def _count(name: str, count: int, low: int, high: int) -> None:
    if not low <= count <= high:
        raise ConfigError(
            f"The number of {name} is {count}.", remedy=f"Give from {low} to {high:,}."
        )
