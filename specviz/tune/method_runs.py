"""Short runs that measure the speed of a method where step costs cannot predict it.

Several values of γ race: in every stage, the remaining values run on the same prompts with the same
seeds, then the slower half drops out (``halving``). Every run is timed against the target alone on
the same tokens. Importing this module does not load torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.figures.metrics import metrics
from specviz.measure.measured_run import measured_run
from specviz.measure.slice_timing import compared_seconds
from specviz.record.prompts import SuiteItem
from specviz.record.trace import RunConfig
from specviz.tune.halving import Stage, fastest, mixed, stages_of
from specviz.tune.methods import ShortRun
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair

RACED = (1, 2, 4, 8)  # values of γ
_EACH = 4  # average runs of each γ
_ALONE = 6  # runs of a single γ
_MOST_TOKENS = 64  # of a run
_SECONDS = 1.0  # for timing one run


class ShortRunStudy(Value):
    """A study that yields a ShortRun for every run, or None for a run without a whole round.

    ``config`` sets the method and the temperature.
    """

    items: tuple[SuiteItem, ...]
    config: RunConfig
    gammas: tuple[int, ...]
    label: str = "short runs"

    @property
    def stages(self) -> tuple[Stage, ...]:
        field = len(self.gammas)
        if field == 1:
            return (Stage(field=1, measurements=_ALONE),)
        return stages_of(field, _EACH * field)

    @property
    def count(self) -> int:
        return sum(each.field * each.measurements for each in self.stages)

    def find(self, pair: Pair) -> Iterator[ShortRun | None]:
        left, begun = tuple(range(len(self.gammas))), 0
        logs: list[list[float]] = [[] for _ in self.gammas]
        for stage in self.stages:
            for number in range(begun, begun + stage.measurements):
                for place in left:
                    found = self._run(pair, self.gammas[place], number)
                    if found is not None:
                        logs[place].append(math.log(found.speedup))
                    yield found
            begun += stage.measurements
            kept = fastest([logs[each] for each in left], math.ceil(stage.field / 2))
            left = tuple(left[each] for each in kept)

    def _run(self, pair: Pair, gamma: int, number: int) -> ShortRun | None:
        """Make run ``number``. Runs cycle through the prompts; each cycle has its own seed."""
        items = mixed(self.items)
        item, cycle = items[number % len(items)], number // len(items)
        config = replace(
            self.config, gamma=gamma, seed=self.config.seed + cycle, record=False,
            max_new_tokens=min(_MOST_TOKENS, self.config.max_new_tokens),
        )  # fmt: skip
        budget = min(_SECONDS, compared_seconds())
        run = measured_run(pair, item.whole, config, kind=item.kind, budget=budget)
        for _ in run:
            pass
        for _ in run.timed():
            pass
        trace = run.trace()
        speedup = metrics(trace, intervals=False).speedup_observed
        whole = [entry for entry in trace.rounds if entry.whole]
        if not whole or not speedup:
            return None
        return ShortRun(
            gamma=gamma, temperature=config.temperature, rounds=len(whole),
            tokens=sum(len(entry.emitted) for entry in whole), speedup=speedup,
        )  # fmt: skip


def raced_gammas(config: RunConfig, gammas: tuple[int, ...]) -> tuple[int, ...]:
    """Return the values of γ that the short runs try; for a tree, only its depth."""
    if config.branching:
        return (config.depth,)
    return tuple(each for each in RACED if each in gammas) or gammas[:1]
