"""The figures of a comparison as rows of text: a column a lane, the target alone at the end.

Where the lanes have different targets there is no such column: each lane has a row with its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from specviz.comparison import (
    Comparison,
    LaneResult,
    Ratio,
    Spread,
    TargetResult,
    interval_words,
)

BEST = "★"
Better = Literal["high", "low", "neither"]


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
    return tuple(row for row in made if any(text != _NONE for text in row.texts))


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
class _Figure:
    name: str
    of: Callable[[LaneResult], Ratio | Spread | None]
    write: Callable[[float], str]
    better: Better
    unit: str = ""
    share: bool = False  # what cannot lie outside 0 and 1, though a mean's interval may
    target: Callable[[TargetResult], Spread | None] | None = None


_NONE = "–"


def _row(figure: _Figure, comparison: Comparison) -> Row:
    found = [figure.of(lane) for lane in comparison.lanes]
    alone = figure.target(comparison.target) if figure.target and comparison.target else None
    return Row(
        name=figure.name,
        texts=tuple(_text(each, figure) for each in found),
        best=_best([_middle(each) for each in found], figure),
        target="" if alone is None else _text(alone, figure),
    )


def _middle(found: Ratio | Spread | None) -> float | None:
    if found is None:
        return None
    return found.median if isinstance(found, Spread) else found.value


def _text(found: Ratio | Spread | None, figure: _Figure) -> str:
    middle = _middle(found)
    if found is None or middle is None:
        return _NONE
    shown, unit = figure.write(middle), figure.unit
    if found.low is None or found.high is None:
        return f"{shown}{unit}"
    ends = (found.low, found.high)
    low, high = (figure.write(min(1.0, max(0.0, end)) if figure.share else end) for end in ends)
    return f"{shown}{unit}" if low == high == shown else f"{shown}{unit} ({low}–{high})"


def _best(values: Sequence[float | None], figure: _Figure) -> tuple[int, ...]:
    """None where all lanes show the same, or more is neither better nor worse."""
    known = {i: value for i, value in enumerate(values) if value is not None}
    shown = {i: figure.write(value) for i, value in known.items()}
    if len(set(shown.values())) < 2 or figure.better == "neither":
        return ()
    pick = max if figure.better == "high" else min
    winner = shown[pick(known, key=lambda i: known[i])]
    return tuple(i for i, text in shown.items() if text == winner)


def _two(value: float) -> str:
    return f"{value:.2f}"


def _hundredfold(value: float) -> str:
    return f"{100 * value:.0f}"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f}"


_FIGURES = (
    _Figure(
        name="tokens a second", of=lambda lane: lane.tokens_per_second, write="{:.0f}".format,
        better="high", target=lambda target: target.tokens_per_second,
    ),
    _Figure(name="speedup", of=lambda lane: lane.speedup_ratio, write=_two, better="high"),
    _Figure(
        name="α observed", of=lambda lane: lane.alpha, write=_two, better="high", share=True
    ),
    _Figure(
        name="α expected", of=lambda lane: lane.expected, write=_two, better="high", share=True
    ),
    _Figure(name="τ, tokens a round", of=lambda lane: lane.tau, write=_two, better="high"),
    _Figure(name="c, a draft step", of=lambda lane: lane.c, write="{:.3f}".format, better="low"),
    _Figure(name="v, a verification", of=lambda lane: lane.v, write=_two, better="low"),
    _Figure(
        name="drafting time wasted", of=lambda lane: lane.wasted_share, write=_hundredfold,
        better="low", unit=" %",
    ),
    _Figure(
        name="time to first token", of=lambda lane: lane.ttft_ms, write="{:.1f}".format,
        better="low", unit=" ms", target=lambda target: target.ttft_ms,
    ),
    _Figure(
        name="memory of the weights", of=lambda lane: lane.memory_bytes, write=_megabytes,
        better="low", unit=" MB",
    ),
)  # fmt: skip
_OWN_TARGET = _Figure(
    name="its target alone, tokens a second",
    of=lambda lane: lane.target_tokens_per_second,
    write="{:.0f}".format,
    better="neither",
)
