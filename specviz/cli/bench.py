"""``bench``: the engine measured against others, with progress on standard error."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from specviz.cli.options import check_pair, spec_from
from specviz.cli.progress_lines import tell_in_lines
from specviz.cli.report import to_json
from specviz.cli.terminal_text import Painter, display_width, one_line, painter_for
from specviz.errors import ConfigError
from specviz.record.bodies import NO_BODY

if TYPE_CHECKING:
    from specviz.engine import Pair

INDENT = "  "


def command(options: argparse.Namespace) -> int:
    check_pair(options, needs_draft=True)
    if options.repeats < 1:
        raise ConfigError(f"repeats is {options.repeats}.", remedy="Give a whole number from 1.")
    with contextlib.redirect_stdout(sys.stderr):  # libraries may print
        result = _measure(options)
    painter = painter_for(sys.stdout, os.environ)
    print(to_json(result) if options.json else render_bench(painter, result))
    return 0


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    from specviz.bench.bench import run_bench
    from specviz.engine import load_pair

    with_body = spec_from(options)
    body = with_body.target_body

    def load(asked: str) -> Pair:
        _say("loading the pair")
        bare = replace(with_body, target_body=NO_BODY, draft_body=NO_BODY)
        return load_pair(bare if asked == NO_BODY else with_body, progress=tell_in_lines(_say))

    return run_bench(load, body=body, repeats=options.repeats, quick=options.quick, say=_say)


def _say(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)


def render_bench(painter: Painter, result: Mapping[str, Any]) -> str:
    """The ratios, all lanes that were timed, what is to be known, the figures, and the machine."""
    tables = (
        _ratios(result["ratios"], result.get("intervals") or {}),
        result.get("rows") or [],
        result.get("divergences") or [],
        _named("figure", result.get("figures") or {}),
    )
    blocks = [_table(painter, rows) for rows in tables if rows]
    notices = [INDENT + one_line(notice) for notice in result.get("notices") or []]
    blocks += ["\n".join(notices)] if notices else []
    return "\n\n".join([*blocks, *_whereabouts(painter, result.get("environment") or {})])


def _ratios(
    ratios: Mapping[str, Any], intervals: Mapping[str, Sequence[float] | None]
) -> list[dict[str, Any]]:
    """The lower end is what "at least" is judged by."""
    rows: list[dict[str, Any]] = []
    for name, value in ratios.items():
        low, high = intervals.get(name) or (None, None)
        rows.append({"ratio": name, "value": value, "95 % from": low, "to": high})
    return rows


def _named(title: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for a value; a value in a group has the group's name before its own."""
    rows: list[dict[str, Any]] = []
    for name, value in values.items():
        inner = value.items() if isinstance(value, Mapping) else [("", value)]
        rows += [{title: f"{name} {key}".rstrip(), "value": each} for key, each in inner]
    return rows


def _whereabouts(painter: Painter, environment: Mapping[str, Any]) -> list[str]:
    names = ("device", "device_name", "dtype", "threads")
    parts = [
        f"{name.replace('_', ' ')} {environment[name]}" for name in names if name in environment
    ]
    return [INDENT + painter.paint(one_line(" · ".join(parts)), "dim")] if parts else []


def _table(painter: Painter, rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [[name.replace("_", " "), *(_cell(row.get(name)) for row in rows)] for name in names]
    values = [[row.get(name) for row in rows] for name in names]
    filled = [_aligned(*each) for each in zip(columns, values, strict=True)]
    lines = [INDENT + "  ".join(cells).rstrip() for cells in zip(*filled, strict=True)]
    return "\n".join([painter.paint(line, "dim") for line in lines[:1]] + lines[1:])


def _aligned(cells: list[str], values: Sequence[object]) -> list[str]:
    """One column, with numbers to the right and words to the left."""
    width = max(map(display_width, cells))
    numbers = any(isinstance(value, int | float) for value in values)
    gaps = [" " * (width - display_width(cell)) for cell in cells]
    pairs = zip(gaps, cells, strict=True)
    return [gap + cell if numbers else cell + gap for gap, cell in pairs]


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else one_line(str(value))
