"""Render a comparison for the terminal: verdict, lanes, and a table for every kind of prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from specviz.cli.terminal_text import Painter, paragraph, table
from specviz.comparison.lane_results import median_of
from specviz.comparison.table import cost_warnings, spread_text
from specviz.comparison.words import interval_units, made_on
from specviz.figures.catalogue import CATALOGUE
from specviz.record.numbers import UNKNOWN
from specviz.record.prompts import NO_KIND

if TYPE_CHECKING:
    from specviz.comparison import Comparison, KindResult, Ratio, Spread, TargetResult
    from specviz.comparison.regression import RegressionCheck

ReadFigure = Callable[[Any], "Ratio | Spread | float | None"]  # the argument is a lane's result


def render_comparison(
    painter: Painter, comparison: Comparison, checked: RegressionCheck | None
) -> str:
    blocks = [
        paragraph(painter, comparison.verdict.text),
        _lanes(painter, comparison),
        *(_kind(painter, each) for each in comparison.kinds),
        paragraph(painter, _basis_text(comparison)),
    ]
    if checked is not None:
        blocks.append("\n".join(paragraph(painter, line) for line in checked.lines))
    return "\n\n".join(blocks)


def _lanes(painter: Painter, comparison: Comparison) -> str:
    readers = lane_figures()
    heads = ["", "runs", *(CATALOGUE[name].head for name in readers)]
    columns = [
        [lane.label, str(lane.count), *(_text(name, read(lane)) for name, read in readers.items())]
        for lane in comparison.lanes
    ]
    if comparison.target is not None:
        name = "target" if comparison.verdict.same_question else comparison.target.label
        columns.append([f"{name} alone", *_target_figures(comparison.target)])
    return table(painter, [heads, *columns])


def lane_figures() -> dict[str, ReadFigure]:
    """Return the functions that read a lane's values, keyed by column id."""
    return {
        "tokens_per_second": lambda lane: lane.tokens_per_second,
        "speedup_observed": lambda lane: lane.speedup_ratio,
        "alpha_observed": lambda lane: lane.alpha,
        "alpha_expected": lambda lane: lane.expected,
        "tau": lambda lane: median_of(lane.tau),
        "c": lambda lane: median_of(lane.c),
        "v": lambda lane: median_of(lane.v),
        "wasted_share": lambda lane: median_of(lane.wasted_share),
        "memory_bytes": lambda lane: median_of(lane.memory_bytes),
        "ttft_ms": lambda lane: median_of(lane.ttft_ms),
    }


def kind_figures() -> dict[str, ReadFigure]:
    return {
        "speedup_observed": lambda lane: lane.speedup_ratio,
        "alpha_observed": lambda lane: lane.alpha,
        "tau": lambda lane: median_of(lane.tau),
        "tokens_per_second": lambda lane: lane.tokens_per_second,
    }


def _target_figures(target: TargetResult) -> list[str]:
    """Return the cells for the target alone; a dash for values that plain decoding lacks."""
    known = {
        "tokens_per_second": _text("tokens_per_second", target.tokens_per_second),
        "ttft_ms": _text("ttft_ms", median_of(target.ttft_ms)),
    }
    return [str(target.count), *(known.get(name, UNKNOWN) for name in lane_figures())]


def _kind(painter: Painter, result: KindResult) -> str:
    readers = kind_figures()
    heads = [*(CATALOGUE[name].head for name in readers), "vs the first lane"]
    columns = [
        [
            lane.label,
            *(_text(name, read(lane)) for name, read in readers.items()),
            _text("speedup_observed", over_first),
        ]
        for lane, over_first in zip(result.lanes, result.over_first, strict=True)
    ]
    return table(painter, [[result.kind or NO_KIND, *heads], *columns])


def _basis_text(comparison: Comparison) -> str:
    plan = comparison.plan
    over = interval_units(comparison.ratios.values())
    units = f"; 95 % intervals over {' and '.join(over)} (Student's t)" if over else ""
    prompts = f"{len(plan.items)} prompt{'s' * (len(plan.items) != 1)}"
    repeats = f"{plan.repeats} repeat{'s' * (plan.repeats != 1)}"
    where = made_on(comparison)
    parts = (
        f"{prompts}, {repeats}; medians, with the lowest and the highest value{units}.",
        f"{where[:1].upper()}{where[1:]}",
        cost_warnings(comparison),
        _memory_note(comparison),
    )
    return " ".join(part for part in parts if part)


def _memory_note(comparison: Comparison) -> str:
    places = [each.device for lane in comparison.lanes for each in lane.environments]
    room = " and, on a GPU, its working memory" if any(p.startswith("cuda") for p in places) else ""
    return f"Memory: a lane's weights{room}."


def _text(name: str, found: Ratio | Spread | float | None) -> str:
    figure = CATALOGUE[name]
    if found is None or isinstance(found, int | float):
        return figure.quantity.shown(found)
    return spread_text(figure, found)
