"""Measure the step-cost table: how long each kind of step takes at each context length.

The time is limited; the limit is checked before every step and while contexts are fed. One context
length is always tried. Another context length is added only if all contexts can get enough samples
within the limit. Few contexts suffice, because costs relative to a target step hardly depend on the
context. At every context, each kind of step first runs once. Its time is used for planning and
as a fallback. Then every verification length gets a first row of timed steps (``cost_columns.py``)
at all contexts, then every verification length gets a second row, and so on. So if time runs out,
all costs have about equally many samples. The table then records how many samples its least sampled
cost has, and which verifications are interpolated. A context is left out if its plain step, a draft
phase, or its shortest or longest verification was not measured.
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
    TimeBudget,
)
from specviz.engine.model.memory import memory_errors
from specviz.engine.model.pair import Pair
from specviz.record.pairs import ProgressCallback
from specviz.record.run_config import RunConfig
from specviz.record.step_costs import ENOUGH_SAMPLES, ShapeCosts, StepCosts

SECONDS = 10.0  # for a whole table
_PARTS = 4  # groups of plain steps, compared to measure the machine's drift
_ROWS = (1, 3, 4)  # counted turns in the first, second and later rows of a verification length
_LONG_ROWS = (3, 3, 4)  # counted turns, if time allows only two rows
_RESERVE = 1.1  # factor on the expected seconds


def measure_step_costs(
    pair: Pair,
    config: RunConfig,
    *,
    contexts: Sequence[int],
    repeats: int = 12,
    seconds: float = SECONDS,
    on_progress: ProgressCallback | None = None,
    stepwise: bool = False,
) -> StepCosts | None:
    """Measure the step costs of this pair and configuration at the given context lengths.

    Args:
        stepwise: if true, the host drives drafting and verification step by step, even if the pair
            can decode on the device.
        on_progress: called after each tenth of the work or of the time; may raise to stop.

    Returns:
        The table; None if the time was too short for a single context.
    """
    order, rows = _verification_order(config.gamma + 1), tuple(_rows(repeats))
    steps = _column_steps(len(order), rows) + (0 if config.is_chain else _length_steps(rows))
    budget = TimeBudget(seconds, len(contexts) * steps, on_progress)
    columns: list[Column] = []
    kinds = len(order) + (not config.is_chain)
    with memory_errors(pair.device), suppress(OutOfTimeError):
        for context in _middle_first(contexts):
            if columns and _seconds(columns, kinds, rows, more=1) > budget.left:
                break
            columns.append(Column(pair, config, context, budget, stepwise=stepwise))
            columns[-1].begin(order)
        if _seconds(columns, kinds, rows) > budget.left > _seconds(columns, kinds, _LONG_ROWS):
            rows = _LONG_ROWS  # with fewer uncounted steps
        for turns in rows:
            for tokens in order:
                for column in columns:
                    column.row(tokens, turns)
            for column in columns:
                column.row_of_trees(turns)
    usable = sorted((each for each in columns if each.usable), key=lambda each: each.context)
    return _table(config, usable, cut_short=budget.out_of_time)


def _middle_first(contexts: Sequence[int]) -> list[int]:
    """Return the contexts, the middle one first, because most runs are closest to it."""
    middle = contexts[(len(contexts) - 1) // 2]
    return [middle, *(each for each in contexts if each != middle)]


def _seconds(columns: Sequence[Column], kinds: int, rows: Sequence[int], *, more: int = 0) -> float:
    """Return the expected seconds until all costs of the columns have enough samples.

    Args:
        kinds: The number of verification lengths, plus 1 if a tree is measured.
        rows: For each row, how often it times a draft phase and a verification.
        more: The number of columns that will be added to ``columns``.
    """
    first, counted, seconds = columns[0], 0, 0.0
    for turns in rows:
        if counted < ENOUGH_SAMPLES:
            seconds += (turns + 1) * first.turn_seconds + (PLAIN_ROW + 1) * first.plain.seconds()
            counted += turns
    return _RESERVE * (len(columns) + more) * kinds * seconds


def _verification_order(wanted: int) -> tuple[int, ...]:
    """Return the verification lengths in the order in which they are measured.

    The longest comes first, then 2 and ``wanted``, then the midpoints of the gaps between them.
    """
    halving = (n for stride in (8, 4, 2, 1) for n in range(1 + stride, MAX_TOKENS + 1, stride))
    order = dict.fromkeys((MAX_TOKENS, 2, wanted, *halving))
    return tuple(tokens for tokens in order if tokens <= MAX_TOKENS)


def _rows(repeats: int) -> Iterator[int]:
    left, index = repeats, 0
    while left:
        turns = min(left, _ROWS[min(index, len(_ROWS) - 1)])
        yield turns
        left, index = left - turns, index + 1


def _column_steps(numbers: int, rows: Sequence[int]) -> int:
    """Return how many steps are run at one context length, for progress reports.

    ``numbers``: the number of verification lengths. ``rows``: as in ``_seconds``.
    """
    return 1 + numbers * _length_steps(rows)


def _length_steps(rows: Sequence[int]) -> int:
    """Return how many steps are run for one verification length, or for a tree.

    ``rows``: as in ``_seconds``.
    """
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
    """Return the costs of the run's tree; None for a chain, or if the tree was not measured."""
    known = [(each.tree, each.plain.seconds()) for each in columns if each.tree is not None]
    trees = [(phase, verification, unit) for (phase, verification), unit in known]
    if not trees or len(trees) < len(columns):
        return None
    return ShapeCosts(
        shape=config.shape,
        dynamic=config.dynamic_tree,
        draft=tuple(phase.seconds(unit) for phase, _, unit in trees),
        verify=tuple(verification.seconds(unit) for _, verification, unit in trees),
        draft_error=max(phase.error for phase, _, _ in trees),
        verify_error=max(verification.error for _, verification, _ in trees),
    )


def _worst(columns: Iterable[Sequence[float]]) -> tuple[float, ...]:
    return tuple(max(errors) for errors in zip(*columns, strict=True))


def _drift(seconds: Sequence[float]) -> float:
    """Return how much the machine's speed changed, given the times of identical steps in order.

    The times are split into consecutive groups. The result is the largest group median divided by
    the smallest group median, minus 1.
    """
    size = max(1, len(seconds) // _PARTS)
    parts = [median(seconds[i : i + size]) for i in range(0, len(seconds), size)][:_PARTS]
    return max(parts) / min(parts) - 1.0 if parts else 0.0
