"""Draw observed speedups against accounted and forecast speedups, as an SVG.

The left panel shows the observed speedups divided by the accounted speedups. The right panel shows
the intervals of the forecasts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from specviz.bench.accounting import AccountedRun

_WIDTH, _HEIGHT = 900, 340
_TOP, _BOTTOM = 54, 58
_LEFT = (56, 420)  # both panels, as left and right ends in pixels
_RIGHT = (500, 880)
_TICKS = (0.25, 0.5, 0.8, 0.9, 1.0, 1.1, 1.25, 2.0, 4.0)
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #4b5563 }
.title { font-weight: 600; fill: #1f2937 }
.axis { stroke: #d1d5db }
.one { stroke: #6b7280; stroke-dasharray: 4 3 }
.run { fill: #0b5cad; fill-opacity: 0.55 }
.median { stroke: #b45309; stroke-width: 3 }
.covered { stroke: #0f8a5f; stroke-opacity: 0.5 }
.missed { stroke: #b91c1c }
"""


def accounting_svg(runs: Sequence[AccountedRun]) -> str:
    """Return the drawing as SVG text.

    The left panel omits runs without an accounted speedup, and the right panel omits runs without a
    forecast.
    """
    parts = [*_ratios(runs), *_forecasts(runs)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        'aria-label="Observed over accounted speedup, and forecast intervals">'
        f'<style>{_STYLE}</style><rect width="100%" height="100%" rx="8" fill="#fff"/>'
        + "".join(parts)
        + "</svg>\n"
    )


class _Scale:
    """A logarithmic vertical axis with 1 in the middle, long enough for all ``values``."""

    def __init__(self, values: Iterable[float]) -> None:
        self.most = max(0.12, *(abs(math.log(each)) for each in values))

    def y(self, value: float) -> float:
        middle, half = (_TOP + _HEIGHT - _BOTTOM) / 2, (_HEIGHT - _TOP - _BOTTOM) / 2
        return middle - half * math.log(value) / self.most

    def drawn(self, left: float, right: float) -> Iterator[str]:
        last = math.inf
        for tick in sorted(_TICKS):
            y = self.y(tick)
            if abs(math.log(tick)) > self.most or last - y < 16:
                continue
            last = y
            kind = "one" if tick == 1.0 else "axis"
            yield f'<line class="{kind}" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield _text(left - 8, y + 4, f"{tick:g}", anchor="end")


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _ratios(runs: Sequence[AccountedRun]) -> Iterator[str]:
    """Yield the left panel as SVG: a column of dots for each simulated size, --step and γ."""
    groups: dict[tuple[str, str], dict[int, list[float]]] = {}
    for run in runs:
        if run.ratio is not None:
            by_gamma = groups.setdefault((run.step, run.body), {})
            by_gamma.setdefault(run.gamma, []).append(run.ratio)
    columns = [(group, gamma) for group, found in groups.items() for gamma in sorted(found)]
    yield _text(_LEFT[0], 26, "Observed / accounted speedup", kind="title")
    if not columns:
        return
    left, right = _LEFT
    scale = _Scale(value for found in groups.values() for each in found.values() for value in each)
    yield from scale.drawn(left, right)
    step = (right - left) / len(columns)
    for place, (group, gamma) in enumerate(columns):
        values = sorted(groups[group][gamma])
        x = left + (place + 0.5) * step
        for number, value in enumerate(values):
            beside = ((number % 3) - 1) * min(5.0, step / 6)
            yield f'<circle class="run" r="3" cx="{x + beside:.1f}" cy="{scale.y(value):.1f}"/>'
        y = scale.y(values[len(values) // 2])
        yield f'<path class="median" d="M{x - step / 3:.1f} {y:.1f}h{step * 2 / 3:.1f}"/>'
        yield _text(x, _HEIGHT - _BOTTOM + 20, f"γ {gamma}", anchor="middle")
    for group, found in groups.items():
        places = [place for place, column in enumerate(columns) if column[0] == group]
        middle = left + (places[0] + len(found) / 2) * step
        name = ("as it is" if group[1] == "none" else group[1]) + (
            ", library" if group[0] == "library" else ""
        )
        yield _text(middle, _HEIGHT - _BOTTOM + 40, name, anchor="middle")


def _forecasts(runs: Sequence[AccountedRun]) -> Iterator[str]:
    """Yield the right panel as SVG: forecast intervals divided by observed speedups, sorted."""
    known = [
        (run.forecast_low / run.observed, run.forecast_high / run.observed)
        for run in runs
        if run.observed and run.forecast_low and run.forecast_high
    ]
    left, right = _RIGHT
    yield _text(left, 26, "Forecast interval / observed speedup", kind="title")
    if not known:
        return
    known.sort(key=lambda each: math.sqrt(each[0] * each[1]))
    scale = _Scale(end for each in known for end in each)
    yield from scale.drawn(left, right)
    step = (right - left) / len(known)
    for place, (low, high) in enumerate(known):
        x, kind = left + (place + 0.5) * step, "covered" if low <= 1 <= high else "missed"
        yield (
            f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" '
            f'y1="{scale.y(low):.1f}" y2="{scale.y(high):.1f}"/>'
        )
    covered = sum(low <= 1 <= high for low, high in known)
    words = f"{len(known)} runs; {covered} intervals contain the observed speedup"
    yield _text((left + right) / 2, _HEIGHT - _BOTTOM + 40, words, anchor="middle")
