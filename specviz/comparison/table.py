"""The figures of a comparison as rows of text: a column a lane, the target alone at the end.

Where the lanes have different targets there is no such column: each lane has a row with its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specviz.comparison import (
    Comparison,
    LaneResult,
    Ratio,
    Spread,
    TargetResult,
    interval_words,
)
from specviz.record.figures import CATALOGUE, Figure
from specviz.record.numbers import UNKNOWN

BEST = "★"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure of every lane; ``best`` are the lanes whose shown value no other beats."""

    name: str
    texts: tuple[str, ...]
    best: tuple[int, ...]
    target: str = ""


def rows_of(comparison: Comparison) -> tuple[Row, ...]:
    """Rows that no lane knows are left out."""
    own = () if has_one_target(comparison) else (_OWN_TARGET,)
    made = [_row(figure, comparison) for figure in (*_FIGURES, *own)]
    return tuple(row for row in made if any(text != UNKNOWN for text in row.texts))


def has_one_target(comparison: Comparison) -> bool:
    """Whether one column can stand for the target alone."""
    return comparison.verdict.same_question


def as_texts(comparison: Comparison) -> list[list[str]]:
    """The head first; the best of a row is marked."""
    head = ["", *(lane.label for lane in comparison.lanes), "target alone"]
    rows = [[row.name, *marked(row), row.target] for row in rows_of(comparison)]
    width = len(head) if has_one_target(comparison) else len(head) - 1
    return [each[:width] for each in (head, *rows)]


def legend(comparison: Comparison) -> str:
    """What the brackets and the mark of the best mean."""
    means = (
        lane
        for each in comparison.lanes
        for lane in (each.speedup_ratio, each.alpha, each.expected)
    )
    return (
        f"Speedup and α: mean {interval_words(means)}. The others: median, with the lowest and the "
        f"highest run. {BEST} the best of the row by its middle value; whether a difference can "
        "be relied on, the verdict says."
    )


def marked(row: Row) -> list[str]:
    return [f"{text} {BEST}" if i in row.best else text for i, text in enumerate(row.texts)]


# One figure


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """A figure of the catalogue, and where a lane and the target alone have it."""

    figure: Figure
    of: Callable[[LaneResult], Ratio | Spread | None]
    target: Callable[[TargetResult], Spread | None] | None = None
    label: str = ""
    compared: bool = True


def _row(shown: _Shown, comparison: Comparison) -> Row:
    found = [shown.of(lane) for lane in comparison.lanes]
    alone = shown.target(comparison.target) if shown.target and comparison.target else None
    return Row(
        name=shown.label or shown.figure.label,
        texts=tuple(spread_text(shown.figure, each) for each in found),
        best=_best([_middle(each) for each in found], shown),
        target="" if alone is None else spread_text(shown.figure, alone),
    )


def spread_text(figure: Figure, found: Ratio | Spread | None) -> str:
    """The middle value, with its interval or its lowest and highest run where there is one."""
    if found is None:
        return UNKNOWN
    return figure.quantity.spread(_middle(found), found.low, found.high)


def _middle(found: Ratio | Spread | None) -> float | None:
    if found is None:
        return None
    return found.median if isinstance(found, Spread) else found.value


def _best(values: Sequence[float | None], shown: _Shown) -> tuple[int, ...]:
    """None where all lanes show the same, or more is neither better nor worse."""
    known = {i: value for i, value in enumerate(values) if value is not None}
    texts = {i: shown.figure.quantity.bare(value) for i, value in known.items()}
    better = shown.figure.better if shown.compared else None
    if len(set(texts.values())) < 2 or better is None:
        return ()
    pick = max if better == "higher" else min
    winner = texts[pick(known, key=lambda i: known[i])]
    return tuple(i for i, text in texts.items() if text == winner)


_FIGURES = (
    _Shown(
        figure=CATALOGUE["tokens_per_second"],
        of=lambda lane: lane.tokens_per_second,
        target=lambda target: target.tokens_per_second,
    ),
    _Shown(figure=CATALOGUE["speedup_observed"], of=lambda lane: lane.speedup_ratio),
    _Shown(figure=CATALOGUE["alpha_observed"], of=lambda lane: lane.alpha),
    _Shown(figure=CATALOGUE["alpha_expected"], of=lambda lane: lane.expected),
    _Shown(figure=CATALOGUE["tau"], of=lambda lane: lane.tau),
    _Shown(figure=CATALOGUE["c"], of=lambda lane: lane.c),
    _Shown(figure=CATALOGUE["v"], of=lambda lane: lane.v),
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
