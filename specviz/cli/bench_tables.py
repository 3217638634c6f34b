"""Tables of benchmark results for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.cli.terminal_text import INDENT, Painter, display_width, one_line
from specviz.record.numbers import UNKNOWN


def value_rows(title: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one table row per value; a value in a nested mapping is named "group key"."""
    rows: list[dict[str, Any]] = []
    for name, value in values.items():
        inner = value.items() if isinstance(value, Mapping) else [("", value)]
        rows += [{title: f"{name} {key}".rstrip(), "value": each} for key, each in inner]
    return rows


def machine_lines(painter: Painter, environment: Mapping[str, Any]) -> list[str]:
    names = ("device", "device_name", "dtype", "threads")
    parts = [
        f"{name.replace('_', ' ')} {environment[name]}" for name in names if name in environment
    ]
    return [INDENT + painter.paint(one_line(" · ".join(parts)), "dim")] if parts else []


def table(painter: Painter, rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [[name.replace("_", " "), *(_cell(row.get(name)) for row in rows)] for name in names]
    values = [[row.get(name) for row in rows] for name in names]
    filled = [_aligned(*each) for each in zip(columns, values, strict=True)]
    lines = [INDENT + "  ".join(cells).rstrip() for cells in zip(*filled, strict=True)]
    return "\n".join([painter.paint(line, "dim") for line in lines[:1]] + lines[1:])


def _aligned(cells: list[str], values: Sequence[object]) -> list[str]:
    """Return the cells of one column, numbers right-aligned and text left-aligned."""
    width = max(map(display_width, cells))
    numbers = any(isinstance(value, int | float) for value in values)
    gaps = [" " * (width - display_width(cell)) for cell in cells]
    pairs = zip(gaps, cells, strict=True)
    return [gap + cell if numbers else cell + gap for gap, cell in pairs]


def _cell(value: object) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:.3f}" if isinstance(value, float) else one_line(str(value))
