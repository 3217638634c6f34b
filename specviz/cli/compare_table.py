"""A comparison for the terminal: the verdict, a column a lane, a table for each kind of prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from specviz.cli.painter import Painter, display_width, one_line, pad, wrap_text

if TYPE_CHECKING:
    from specviz.comparison import Comparison, KindResult, LaneResult, Ratio, Spread, TargetResult
    from specviz.comparison.regression import Checked

INDENT = "  "
UNKNOWN = "–"
NAMES = (
    "runs", "tokens/s", "speedup", "α observed", "α expected", "τ", "c", "v", "drafting wasted",
    "memory", "first token",
)  # fmt: skip


def render_comparison(painter: Painter, comparison: Comparison, checked: Checked | None) -> str:
    blocks = [
        _paragraph(painter, comparison.verdict.text),
        _lanes(painter, comparison),
        *(_kind(painter, each) for each in comparison.kinds),
        _paragraph(painter, _how(comparison)),
    ]
    if checked is not None:
        blocks.append("\n".join(_paragraph(painter, line) for line in checked.lines))
    return "\n\n".join(blocks)


def _paragraph(painter: Painter, text: str) -> str:
    lines = wrap_text([(one_line(text), "plain")], painter.width - len(INDENT))
    return "\n".join(INDENT + painter.join(line) for line in lines)


def _lanes(painter: Painter, comparison: Comparison) -> str:
    columns = [[lane.label, *_figures(lane)] for lane in comparison.lanes]
    if comparison.target is not None:
        name = "target" if comparison.verdict.same_question else comparison.target.label
        columns.append([f"{name} alone", *_figures_alone(comparison.target)])
    return _table(painter, [["", *NAMES], *columns])


def _figures_alone(target: TargetResult) -> list[str]:
    """Those that plain decoding has."""
    known = {
        "runs": str(target.count),
        "tokens/s": _spread(target.tokens_per_second, 1),
        "first token": _middle(target.ttft_ms, 1, float, " ms"),
    }
    return [known.get(name, UNKNOWN) for name in NAMES]


def _figures(lane: LaneResult) -> list[str]:
    return [
        str(lane.count),
        _spread(lane.tokens_per_second, 1),
        _ratio(lane.speedup_ratio, 2),
        _ratio(lane.alpha, 3),
        _ratio(lane.expected, 3),
        _middle(lane.tau, 2),
        _middle(lane.c, 3),
        _middle(lane.v, 2),
        _middle(lane.wasted_share, 1, lambda share: 100 * share, " %"),
        _middle(lane.memory_bytes, 1, lambda size: size / 2**20, " MiB"),
        _middle(lane.ttft_ms, 1, float, " ms"),
    ]


def _kind(painter: Painter, result: KindResult) -> str:
    names = ["speedup", "α observed", "τ", "tokens/s", "over the first lane"]
    columns = [
        [
            lane.label,
            _ratio(lane.speedup_ratio, 2),
            _ratio(lane.alpha, 3),
            _middle(lane.tau, 2),
            _spread(lane.tokens_per_second, 1),
            _ratio(lane.over_first, 2),
        ]
        for lane in result.lanes
    ]
    return _table(painter, [[result.kind or "no kind", *names], *columns])


def _table(painter: Painter, columns: list[list[str]]) -> str:
    """Each column as wide as its widest cell; the first row is its head."""
    safe = [[one_line(cell) for cell in column] for column in columns]
    padded = [[pad(cell, max(map(display_width, column))) for cell in column] for column in safe]
    lines = [INDENT + "  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]
    return "\n".join([painter.paint(lines[0], "dim"), *lines[1:]])


def _how(comparison: Comparison) -> str:
    plan = comparison.plan
    over = {found.over for found in comparison.ratios.values()}
    units = f"; 95 % intervals over {' and '.join(sorted(over))} (Student's t)" if over else ""
    prompts = f"{len(plan.items)} prompt{'s' * (len(plan.items) != 1)}"
    repeats = f"{plan.repeats} repeat{'s' * (plan.repeats != 1)}"
    return f"{prompts}, {repeats}; medians with lowest–highest{units}. {_what_memory(comparison)}"


def _what_memory(comparison: Comparison) -> str:
    places = [each.device for lane in comparison.lanes for each in lane.environments]
    room = " and, on a GPU, its working room" if any(p.startswith("cuda") for p in places) else ""
    return f"Memory: the weights a lane needs{room}."


def _middle(
    value: Spread | None, digits: int, scale: Callable[[float], float] = float, unit: str = ""
) -> str:
    return UNKNOWN if value is None else f"{scale(value.median):.{digits}f}{unit}"


def _spread(value: Spread | None, digits: int) -> str:
    if value is None:
        return UNKNOWN
    return f"{value.median:.{digits}f} ({value.low:.{digits}f}–{value.high:.{digits}f})"


def _ratio(value: Ratio | None, digits: int) -> str:
    if value is None:
        return UNKNOWN
    if value.low is None or value.high is None:
        return f"{value.value:.{digits}f}"
    return f"{value.value:.{digits}f} ({value.low:.{digits}f}–{value.high:.{digits}f})"
