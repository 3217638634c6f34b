"""``costs``: list, export or delete the stored step costs of earlier runs."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import sys
from statistics import median
from typing import Any

from specviz.cli.report import to_json
from specviz.cli.terminal_text import Painter, painter_for, paragraph, table
from specviz.measure.all_step_costs import PairCosts, all_step_costs, forget_step_costs
from specviz.record.numbers import UNKNOWN, Quantity

KIND, SCHEMA = "specviz.costs", 1
_HASH = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")
_STEP = Quantity(digits=2, factor=1000)


def command(options: argparse.Namespace) -> int:
    if options.forget:
        forget_step_costs()
    found = all_step_costs()
    if options.json:
        print(to_json(_record(found)))
    else:
        print(render_costs(painter_for(sys.stdout, os.environ), found))
    return 0


def _record(found: tuple[PairCosts, ...]) -> dict[str, Any]:
    return {"kind": KIND, "schema": SCHEMA, "costs": [dataclasses.asdict(each) for each in found]}


def render_costs(painter: Painter, found: tuple[PairCosts, ...]) -> str:
    if not found:
        return paragraph(painter, "No step costs are stored. Every timed run adds some.")
    rows = [["", "pair", "runs", "processes", "target step, ms", "table"]]
    rows += [_row(number, each) for number, each in enumerate(found, start=1)]
    keys = [
        paragraph(painter, f"{number}: {_HASH.sub(_shortened, each.key)}")
        for number, each in enumerate(found, start=1)
    ]
    return "\n\n".join([table(painter, [list(each) for each in zip(*rows, strict=True)]), *keys])


def _row(number: int, costs: PairCosts) -> list[str]:
    steps = [each.step for each in costs.runs]
    if costs.table is not None and not steps:
        steps = [costs.table.target[0][0]]
    return [
        str(number),
        next((each.pair for each in reversed(costs.runs) if each.pair), UNKNOWN),
        str(len(costs.runs)),
        str(len({each.process for each in costs.runs})),
        _STEP.bare(median(steps)) if steps else UNKNOWN,
        "measured" if costs.table is not None else UNKNOWN,
    ]


def _shortened(found: re.Match[str]) -> str:
    return found[1]
