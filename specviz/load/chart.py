"""Draw the results of a load test as an SVG line chart with a logarithmic x axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from specviz.record.visible import visible
from specviz.values import Value

_WIDTH, _HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 16, 64
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito
_TICKS = 5


class Line(Value):
    """A line of the chart. ``spans``: the ends of each point's interval; empty if unknown."""

    label: str
    points: tuple[tuple[float, float], ...]
    spans: tuple[tuple[float, float], ...] = ()


class _Axes(Value):
    left: float  # logarithms of the levels
    right: float
    top: float

    def across(self, level: float) -> float:
        share = (math.log(level) - self.left) / max(self.right - self.left, 1e-9)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def up(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - value / self.top * (_HEIGHT - _TOP - _BOTTOM)


def chart(lines: Sequence[Line], *, mark: float | None, across: str) -> str:
    """Return the chart as SVG. ``mark``: y of a horizontal line; ``across``: the x axis's label."""
    levels = sorted({x for line in lines for x, _ in line.points})
    values = [y for line in lines for _, y in line.points]
    values += [high for line in lines for _, high in line.spans]
    axes = _Axes(
        left=math.log(levels[0]),
        right=math.log(levels[-1]) if len(levels) > 1 else math.log(levels[0]) + 1,
        top=1.05 * max(*values, mark or 0.0),
    )
    parts = [*_frame(axes, levels, mark, across)]
    for place, line in enumerate(lines):
        parts += _line(axes, line, place)
    label = escape(f"Line chart, x axis: {across}")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}" '
        f'font-size="12" fill="currentColor">{"".join(parts)}</svg>'
    )


def _frame(axes: _Axes, levels: Sequence[float], mark: float | None, across: str) -> Iterator[str]:
    step = _step(axes.top)
    value = 0.0
    while value <= axes.top:
        y = axes.up(value)
        yield (
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="currentColor" stroke-opacity="0.15"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
        value = round(value + step, 10)
    for level in levels:
        yield (
            f'<text x="{axes.across(level):.1f}" y="{_HEIGHT - _BOTTOM + 18}" '
            f'text-anchor="middle">{level:g}</text>'
        )
    yield (
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - _BOTTOM + 36}" text-anchor="middle">'
        f"{escape(across)}</text>"
    )
    if mark is not None:
        y = axes.up(mark)
        yield (
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="currentColor" stroke-dasharray="4 3"/>'
        )


def _line(axes: _Axes, line: Line, place: int) -> Iterator[str]:
    colour = _COLOURS[place % len(_COLOURS)]
    at = [(axes.across(x), axes.up(y)) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for x, y in at:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
    for (x, _), (low, high) in zip(at, line.spans, strict=False):
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{axes.up(low):.1f}" y2="{axes.up(high):.1f}" '
            f'stroke="{colour}" stroke-width="1.5"/>'
        )
    x, y = _LEFT + place * 140, _HEIGHT - 10
    label = escape("".join(map(visible, line.label)))
    yield f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
    yield f'<text x="{x + 16}" y="{y}">{label}</text>'


def _step(top: float) -> float:
    """Return the distance between two ticks, a round number, for a y axis from 0 to ``top``."""
    rough = top / _TICKS
    size = 10 ** math.floor(math.log10(rough))
    return next(size * each for each in (1, 2, 5, 10) if size * each >= rough)
