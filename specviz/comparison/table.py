"""The results of a comparison as rows of text: one column per lane, one for the target alone.

If the lanes have different targets, there is no column for the target alone. Instead, a row shows
the tokens per second of each lane's target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from specviz.comparison import (
    Comparison,
    LaneResult,
    Ratio,
    Spread,
    TargetResult,
    interval_words,
)
from specviz.figures.catalogue import CATALOGUE, Figure
from specviz.figures.speedup_words import shown_speedup
from specviz.record.numbers import RATIO, UNKNOWN
from specviz.values import Value

BEST = "★"


class Row(Value):
    """A table row, such as "Speedup": texts for lanes and target, and indices of best lanes."""

    name: str
    texts: tuple[str, ...]
    best: tuple[int, ...]
    target: str = ""


def rows_of(comparison: Comparison) -> tuple[Row, ...]:
    """Return a row for each value, such as the speedup, that at least one lane has."""
    own = () if has_one_target(comparison) else (_OWN_TARGET,)
    made = [_row(figure, comparison) for figure in (*_FIGURES, *own)]
    return tuple(row for row in made if any(text != UNKNOWN for text in row.texts))


def has_one_target(comparison: Comparison) -> bool:
    """Return whether all lanes have the same target, so that one column can show it."""
    return comparison.verdict.same_question


def as_texts(comparison: Comparison) -> list[list[str]]:
    """Return the header, then the rows with the best values marked."""
    head = ["", *(lane.label for lane in comparison.lanes), "target alone"]
    rows = [[row.name, *marked(row), row.target] for row in rows_of(comparison)]
    width = len(head) if has_one_target(comparison) else len(head) - 1
    return [each[:width] for each in (head, *rows)]


def legend(comparison: Comparison) -> str:
    """Return the text below the table: intervals, the mark of the best value, imprecise costs."""
    means = (
        lane
        for each in comparison.lanes
        for lane in (each.speedup_ratio, each.alpha, each.expected)
    )
    text = (
        f"Speedup and α: mean {interval_words(means)}. Other figures: median, lowest and highest "
        f"value of the runs. {BEST} marks the best value if its range overlaps no other "
        "range; for speeds, it marks the lane that the verdict names as the fastest. A speedup "
        "with a wide interval is shown as the interval alone."
    )
    return f"{text} {cost_warnings(comparison)}".rstrip()


def cost_warnings(comparison: Comparison) -> str:
    """Return warnings about unreliable step costs (c and v) of lanes; "" if there are none."""
    found: dict[str, list[str]] = {}
    for lane in comparison.lanes:
        for warning in lane.cost_warnings:
            found.setdefault(warning, []).append(lane.label)
    return " ".join(f"c and v of {', '.join(own)}: {text}" for text, own in found.items())


def marked(row: Row) -> list[str]:
    return [f"{text} {BEST}" if i in row.best else text for i, text in enumerate(row.texts)]


# One figure


class _Shown(Value):
    """What a row shows: an entry of the catalogue, and how to read it from lane and target."""

    figure: Figure
    of: Callable[[LaneResult], Ratio | Spread | None]
    target: Callable[[TargetResult], Spread | None] | None = None
    label: str = ""
    compared: bool = True
    timed: bool = False  # the verdict decides which lane is best


def _row(shown: _Shown, comparison: Comparison) -> Row:
    found = [shown.of(lane) for lane in comparison.lanes]
    alone = shown.target(comparison.target) if shown.target and comparison.target else None
    return Row(
        name=shown.label or shown.figure.label,
        texts=tuple(spread_text(shown.figure, each) for each in found),
        best=_fastest(comparison) if shown.timed else _best(found, shown),
        target="" if alone is None else spread_text(shown.figure, alone),
    )


def spread_text(figure: Figure, found: Ratio | Spread | None) -> str:
    """Return a measured value of kind ``figure`` as text; ``UNKNOWN`` if ``found`` is None.

    A Ratio is shown as its mean with the interval, a Spread as its median with the range of runs.
    A speedup with a wide interval is shown as in a verdict: only the interval, or "too noisy".
    """
    if found is None:
        return UNKNOWN
    if figure.quantity is RATIO and isinstance(found, Ratio):
        return shown_speedup(found.value, found.low, found.high)
    return figure.quantity.spread(_middle(found), found.low, found.high)


def _middle(found: Ratio | Spread | None) -> float | None:
    if found is None:
        return None
    return found.median if isinstance(found, Spread) else found.value


def _fastest(comparison: Comparison) -> tuple[int, ...]:
    winner = comparison.verdict.winner
    return () if winner is None else (winner,)


def _best(values: Sequence[Ratio | Spread | None], shown: _Shown) -> tuple[int, ...]:
    """Return the indices of the best lanes.

    The result is empty if the range of another lane overlaps the range of the best lanes.
    """
    known = {i: value for i, value in enumerate(values) if value is not None}
    better = shown.figure.better if shown.compared else None
    if better is None or len(known) < 2:
        return ()
    sign = 1 if better == "higher" else -1
    worst = {i: min(sign * end for end in _ends(value)) for i, value in known.items()}
    best = {i: max(sign * end for end in _ends(value)) for i, value in known.items()}
    top = max(worst.values())
    winners = tuple(i for i in known if worst[i] == top)
    others = [best[i] for i in known if i not in winners]
    return winners if others and top > max(others) else ()


def _ends(found: Ratio | Spread) -> tuple[float, float]:
    """Return the ends of the interval; without an interval, the ends are infinite."""
    if found.low is None or found.high is None:
        return -math.inf, math.inf
    return found.low, found.high


_FIGURES = (
    _Shown(
        figure=CATALOGUE["tokens_per_second"],
        of=lambda lane: lane.tokens_per_second,
        target=lambda target: target.tokens_per_second,
        timed=True,
    ),
    _Shown(figure=CATALOGUE["speedup_observed"], of=lambda lane: lane.speedup_ratio, timed=True),
    _Shown(figure=CATALOGUE["alpha_observed"], of=lambda lane: lane.alpha),
    _Shown(figure=CATALOGUE["alpha_expected"], of=lambda lane: lane.expected),
    _Shown(figure=CATALOGUE["tau"], of=lambda lane: lane.tau),
    # No lane is best in c or v: both come from a step-cost table, and v depends on gamma.
    _Shown(figure=CATALOGUE["c"], of=lambda lane: lane.c, compared=False),
    _Shown(figure=CATALOGUE["v"], of=lambda lane: lane.v, compared=False),
    _Shown(figure=CATALOGUE["wasted_share"], of=lambda lane: lane.wasted_share),
    _Shown(
        figure=CATALOGUE["ttft_ms"],
        of=lambda lane: lane.ttft_ms,
        target=lambda target: target.ttft_ms,
    ),
    _Shown(figure=CATALOGUE["memory_bytes"], of=lambda lane: lane.memory_bytes),
)
_OWN_TARGET = _Shown(
    figure=CATALOGUE["baseline_tokens_per_second"],
    of=lambda lane: lane.target_tokens_per_second,
    label="tokens/s, its target alone",
    compared=False,
)
SHOWN = tuple(each.figure.id for each in (*_FIGURES, _OWN_TARGET))
