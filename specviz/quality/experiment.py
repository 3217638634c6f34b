"""The experiment: which rules write texts, and which of their texts are compared.

A lane is a rule with its settings. The first lane is lossless. The second lane is the control: it
has the settings of the first lane and other seeds, so its expected win rate against the first lane
is one half. Then each lossy rule has a lane per epsilon. Over-acceptance has two lanes per epsilon:
one draws recovered tokens from the residual (OPT in Yin et al. 2024, theorem 4), the other from the
target's distribution (UNO).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from specviz.comparison.plan import MAX_REPEATS, Lane, Plan, plan_from_json
from specviz.errors import ConfigError
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem
from specviz.record.run_config import RunConfig
from specviz.values import Value

LossyRule = Literal["over-accept", "typical"]
LOSSY_RULES: tuple[LossyRule, ...] = ("over-accept", "typical")
EPSILONS = (0.05, 0.1, 0.2, 0.4)
MOST_EPSILONS = 12
TEXTS = 4  # of each rule per prompt
JUDGED_PAIRS = 4  # per prompt and contest, with a judge
LOSSLESS, CONTROL = 0, 1  # indices of their lanes


class Contest(Value):
    """Two rules whose texts are compared, by their lanes' indices; ``second`` is the reference."""

    first: int
    second: int
    epsilon: float
    label: str


class Experiment(Value):
    """The rules and prompts; each rule writes ``texts`` texts per prompt.

    The target alone is not timed, to save time. The rules take turns, so their rates can be
    compared with each other.
    """

    spec: PairSpec
    config: RunConfig
    items: tuple[SuiteItem, ...]
    epsilons: tuple[float, ...] = EPSILONS
    rules: tuple[LossyRule, ...] = LOSSY_RULES
    texts: int = TEXTS

    def __post_init__(self) -> None:
        if self.config.temperature == 0:
            raise ConfigError(
                "At temperature 0, every text of a prompt is the same, so there is nothing to "
                "compare.",
                remedy="Give a temperature above 0.",
            )
        if not self.epsilons:
            raise ConfigError("There is no ε.", remedy="Give at least one value.")
        if len(set(self.epsilons)) < len(self.epsilons):
            raise ConfigError("An ε is given twice.", remedy="Give different values.")
        if len(self.epsilons) > MOST_EPSILONS:
            raise ConfigError(
                f"There are {len(self.epsilons)} values of ε.",
                remedy=f"Give at most {MOST_EPSILONS}.",
            )
        for epsilon in self.epsilons:
            if not 0 < epsilon <= 1:  # refuses NaN, too
                raise ConfigError(
                    f"ε is {epsilon:g}.",
                    remedy="Give values above 0, at most 1; the lossless rule is always included.",
                )
        if not 1 <= self.texts <= MAX_REPEATS:
            raise ConfigError(
                f"The number of texts per prompt is {self.texts}.",
                remedy=f"Give from 1 to {MAX_REPEATS}.",
            )
        if not self.rules:
            raise ConfigError(
                "There is no lossy rule.", remedy="Give over-accept, typical or both."
            )
        if len(self.items) < 2:
            raise ConfigError(
                "There is one prompt, but the interval of a win rate comes from the differences "
                "between prompts.",
                remedy="Give at least two prompts; forty or more give useful intervals.",
            )

    @property
    def plan(self) -> Plan:
        return Plan(
            lanes=tuple(self._lanes()),
            items=self.items,
            repeats=self.texts,
            baseline=False,
            own_seeds=True,
        )

    @property
    def size_words(self) -> str:
        """Return the number of texts as a product, such as "3 rules × 5 prompts × 4 = 60 texts"."""
        rules, prompts = len(self.plan.lanes), len(self.items)
        texts = rules * prompts * self.texts
        return f"{rules} rules × {prompts} prompts × {self.texts} = {texts:,} texts"

    @property
    def contests(self) -> tuple[Contest, ...]:
        """Return all comparisons of texts: the control, each lossy rule, and OPT against UNO.

        OPT and UNO are over-acceptance with recovered tokens from the residual and from the target.
        """
        lanes = self.plan.lanes
        control = Contest(
            first=CONTROL, second=LOSSLESS, epsilon=0.0, label="lossless against lossless"
        )
        against = [
            Contest(
                first=at,
                second=LOSSLESS,
                epsilon=lane.config.epsilon,
                label=f"{lane.name} against lossless",
            )
            for at, lane in enumerate(lanes)
            if at > CONTROL
        ]
        return (control, *against, *_opt_against_uno(lanes))

    def _lanes(self) -> Iterator[Lane]:
        lossless = replace(self.config, rule="lossless", epsilon=0.0, residual="leftover")
        yield Lane(spec=self.spec, config=lossless, name="lossless")
        yield Lane(spec=self.spec, config=lossless, name="lossless, other seeds")
        for epsilon in self.epsilons:
            for rule in self.rules:
                lossy = replace(lossless, rule=rule, epsilon=epsilon)
                if rule == "typical":
                    yield self._lane(lossy, f"typical, ε {epsilon:g}")
                    continue
                yield self._lane(lossy, f"OPT, ε {epsilon:g}")
                yield self._lane(replace(lossy, residual="target"), f"UNO, ε {epsilon:g}")

    def _lane(self, config: RunConfig, name: str) -> Lane:
        return Lane(spec=self.spec, config=config, name=name)


def experiment_of(plan_json: str) -> Experiment | None:
    """Return the experiment that made a stored plan; None if another page made the plan."""
    plan = plan_from_json(plan_json)
    if not plan.own_seeds:
        return None
    lossy = plan.lanes[CONTROL + 1 :]
    rules = {lane.config.rule for lane in lossy}
    first = plan.lanes[LOSSLESS]
    return Experiment(
        spec=first.spec,
        config=first.config,
        items=plan.items,
        epsilons=tuple(dict.fromkeys(lane.config.epsilon for lane in lossy)),
        rules=tuple(each for each in LOSSY_RULES if each in rules),
        texts=plan.repeats,
    )


def _opt_against_uno(lanes: Sequence[Lane]) -> Iterator[Contest]:
    for at, lane in enumerate(lanes):
        if lane.config.residual == "target":
            epsilon = lane.config.epsilon
            yield Contest(
                first=at - 1, second=at, epsilon=epsilon, label=f"OPT against UNO, ε {epsilon:g}"
            )
