"""Load the stored step costs of all pairs (for lists and exports), or delete them."""

from __future__ import annotations

from specviz.measure.step_costs import RUNS_KIND, TABLE_KIND, TimedRuns
from specviz.record.step_costs import RunCosts, StepCosts
from specviz.store.kept_values import forget_values, kept_values
from specviz.values import Value


class PairCosts(Value):
    """The stored step costs of one pair, device and kind of sampling; ``key`` names all three."""

    key: str
    runs: tuple[RunCosts, ...]
    table: StepCosts | None


def all_step_costs() -> tuple[PairCosts, ...]:
    runs, tables = kept_values(RUNS_KIND, TimedRuns), kept_values(TABLE_KIND, StepCosts)
    return tuple(
        PairCosts(key=key, runs=runs[key].runs if key in runs else (), table=tables.get(key))
        for key in sorted({*runs, *tables})
    )


def forget_step_costs() -> None:
    for kind in (RUNS_KIND, TABLE_KIND):
        forget_values(kind)
