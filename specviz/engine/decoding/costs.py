"""Step costs: what each kind of step takes, measured before any run is judged.

The time is limited, and the limit is checked before every step, also while the contexts are read.
So the table is filled breadth first, every kind of step once and then row by row at every context,
and all costs rest on about as many samples. A table that was cut short says on how many, and which
of its verifications are interpolated for want of samples. A context for which a draft phase or an
end of the column is missing is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from statistics import median

from specviz.engine.decoding.cost_columns import (
    MAX_TOKENS,
    PLAIN_ROW,
    Column,
    OutOfTimeError,
    Pace,
)
from specviz.engine.model.memory import memory_errors
from specviz.engine.model.pair import Pair
from specviz.record.pairs import ProgressCallback
from specviz.record.run_config import RunConfig
from specviz.record.step_costs import ShapeCosts, StepCosts

SECONDS = 10.0  # for a whole table
_PARTS = 4  # of the plain steps, to see whether the machine held still
_ROWS = (1, 3, 4)  # how often in a row a number is verified; the last is repeated


def measure_step_costs(
    pair: Pair,
    config: RunConfig,
    *,
    contexts: Sequence[int],
    repeats: int = 12,
    seconds: float = SECONDS,
    tell: ProgressCallback | None = None,
    stepwise: bool = False,
) -> StepCosts | None:
    """The table for this pair under this sampling, at the given context lengths.

    ``stepwise``: of rounds that go step by step, on a pair whose usual rounds do not.

    ``tell`` hears of every tenth of the work or of the time, and may raise to stop it. None if
    the time was too short for a single context.
    """
    order, rows = _order(config.gamma + 1), tuple(_rows(repeats))
    steps = _steps(len(order), rows) + (0 if config.is_chain else _steps_of_trees(rows))
    pace = Pace(seconds, len(contexts) * steps, tell)
    columns: list[Column] = []
    with memory_errors(pair.device), suppress(OutOfTimeError):
        for context in contexts:
            columns.append(Column(pair, config, context, pace, stepwise=stepwise))
            columns[-1].begin(order)
        for turns in rows:
            for tokens in order:
                for column in columns:
                    column.row(tokens, turns)
            for column in columns:
                column.row_of_trees(turns)
    return _table(config, [each for each in columns if each.usable], cut_short=pace.out_of_time)


def _order(wanted: int) -> tuple[int, ...]:
    """The ends first, then the wanted number, then numbers that halve the gaps."""
    halving = (n for stride in (8, 4, 2, 1) for n in range(1 + stride, MAX_TOKENS + 1, stride))
    order = dict.fromkeys((MAX_TOKENS, 2, wanted, *halving))
    return tuple(tokens for tokens in order if tokens <= MAX_TOKENS)


def _rows(repeats: int) -> Iterator[int]:
    left, index = repeats, 0
    while left:
        turns = min(left, _ROWS[min(index, len(_ROWS) - 1)])
        yield turns
        left, index = left - turns, index + 1


def _steps(numbers: int, rows: Sequence[int]) -> int:
    """Steps in a whole column, to tell how much of it is done."""
    return 1 + numbers * _steps_of_trees(rows)


def _steps_of_trees(rows: Sequence[int]) -> int:
    """And of each number that is verified: once, and then in rows."""
    return 2 + sum(2 * (turns + 1) + PLAIN_ROW + 1 for turns in rows)


def _table(config: RunConfig, columns: Sequence[Column], *, cut_short: bool) -> StepCosts | None:
    if not columns:
        return None
    draft_rows = tuple(zip(*(each.draft_costs for each in columns), strict=True))
    least = min(len(cell.counted) for each in columns for cell in each.cells)
    return StepCosts(
        contexts=tuple(each.context for each in columns),
        draft=draft_rows[:2],
        target=tuple(zip(*(each.target_costs for each in columns), strict=True)),
        draft_next=draft_rows[2] if draft_rows else (),
        drift=max(_drift(each.plain.counted) for each in columns),
        samples=least if cut_short else None,
        interpolated=tuple(sorted({tokens for each in columns for tokens in each.unknown})),
        draft_errors=_worst(each.draft_errors for each in columns),
        target_errors=_worst(each.target_errors for each in columns),
        shape=_shape_costs(config, columns),
    )


def _shape_costs(config: RunConfig, columns: Sequence[Column]) -> ShapeCosts | None:
    """None for a chain, and where there was no time for a round of it."""
    known = [(each.tree, each.plain.seconds()) for each in columns if each.tree is not None]
    trees = [(phase, verification, unit) for (phase, verification), unit in known]
    if not trees or len(trees) < len(columns):
        return None
    return ShapeCosts(
        shape=config.shape,
        draft=tuple(phase.seconds(unit) for phase, _, unit in trees),
        verify=tuple(verification.seconds(unit) for _, verification, unit in trees),
        draft_error=max(phase.error for phase, _, _ in trees),
        verify_error=max(verification.error for _, verification, _ in trees),
    )


def _worst(columns: Iterable[Sequence[float]]) -> tuple[float, ...]:
    return tuple(max(errors) for errors in zip(*columns, strict=True))


def _drift(seconds: Sequence[float]) -> float:
    """The slowest part of a measurement over its fastest, less 1, by their medians."""
    size = max(1, len(seconds) // _PARTS)
    parts = [median(seconds[i : i + size]) for i in range(0, len(seconds), size)][:_PARTS]
    return max(parts) / min(parts) - 1.0 if parts else 0.0
