"""``bench --batch``: show speedups of batches, and how many experts an MoE target reads."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from specviz.cli.bench_tables import machine_lines, table
from specviz.cli.option_values import spec_from
from specviz.cli.progress_lines import progress_in_lines
from specviz.cli.terminal_text import Painter, paragraph
from specviz.record.numbers import UNKNOWN


def measure_batch(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    from specviz.bench.batch_bench import REPEATS, run_batch_bench
    from specviz.engine import load_pair

    spec = spec_from(options)
    say("loading the pair")
    pair = load_pair(spec, progress=progress_in_lines(say))
    return run_batch_bench(
        pair,
        body=spec.target_body,
        temperature=options.temperature,
        repeats=options.repeats or REPEATS,
        quick=options.quick,
        with_experts=not options.quick,
        say=say,
    )


def render_batch(painter: Painter, result: Mapping[str, Any]) -> str:
    found = result["forecast"]
    blocks = [
        table(painter, [_point_row(each) for each in found["points"]]),
        paragraph(painter, f"{result['label']}; {_conditions(found)}"),
        table(painter, [_map_row(row) for row in result["map"]]),
        paragraph(
            painter, "Best γ and its forecast speedup, by context (rows) and sequences (columns)."
        ),
    ]
    if found["experts"]:
        experts = found["experts"]
        blocks.append(table(painter, [_expert_row(each) for each in experts["points"]]))
        blocks.append(table(painter, [experts["run"]]))
    return "\n\n".join([*blocks, *machine_lines(painter, result["environment"])])


def _conditions(found: Mapping[str, Any]) -> str:
    others = found["others"]
    busy = "" if others is None else f", other programs used {others:.0%} of the processors"
    temperature = f"temperature {found['temperature']:g}"
    return f"γ {found['gamma']}, {temperature}, {found['clock']} time{busy}"


def _point_row(point: Mapping[str, Any]) -> dict[str, Any]:
    names = ("batch", "speedup", "forecast", "error", "compact", "padded", "v", "plain")
    row = {name: point[name] for name in names}
    return row | {"same texts": "yes" if point["same_texts"] else "NO"}


def _map_row(row: list[Mapping[str, Any]]) -> dict[str, Any]:
    cells = {
        str(each["batch"]): UNKNOWN
        if each["speedup"] is None
        else f"γ {each['gamma']}: {each['speedup']:.2f}"
        for each in row
    }
    return {"context": row[0]["context"], **cells}


def _expert_row(point: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "rows of a pass": point["rows"],
        "experts per layer": point["experts"],
        "if independent": point["independent"],
        "time, in passes of one row": point["seconds"],
    }
