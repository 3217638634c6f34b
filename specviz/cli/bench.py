"""``bench``: the engine measured against transformers; progress on standard error."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from specviz.cli.options import check_pair
from specviz.cli.painter import Painter, display_width, one_line, painter_for
from specviz.cli.report import to_json
from specviz.errors import ConfigError

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
    from specviz.engine import load_pair
    from specviz.lab.bench import run_bench

    _say("loading the pair")
    pair = load_pair(
        options.pair,
        draft=options.draft,
        target=options.target,
        device=options.device,
        dtype=options.dtype,
        step=options.step,
        threads=options.threads,
    )
    return run_bench(pair, repeats=options.repeats, quick=options.quick, say=_say)


def _say(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)


def render_bench(painter: Painter, result: Mapping[str, Any]) -> str:
    """The ratios, then every row that was measured, in columns."""
    ratios = [{"ratio": name, "value": value} for name, value in result["ratios"].items()]
    blocks = [_table(painter, ratios), _table(painter, result.get("rows") or [])]
    return "\n\n".join(block for block in blocks if block)


def _table(painter: Painter, rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [[name, *(_cell(row.get(name)) for row in rows)] for name in names]
    filled = [_aligned(column, [row.get(column[0]) for row in rows]) for column in columns]
    lines = [INDENT + "  ".join(cells).rstrip() for cells in zip(*filled, strict=True)]
    return "\n".join([painter.paint(line, "dim") for line in lines[:1]] + lines[1:])


def _aligned(cells: list[str], values: list[object]) -> list[str]:
    """One column; numbers to the right, words to the left."""
    width = max(map(display_width, cells))
    numbers = all(value is None or isinstance(value, int | float) for value in values)
    gaps = [" " * (width - display_width(cell)) for cell in cells]
    pairs = zip(gaps, cells, strict=True)
    return [gap + cell if numbers else cell + gap for gap, cell in pairs]


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else one_line(str(value))
