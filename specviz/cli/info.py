"""``info``: describe this installation and its machine, as text for a bug report.

The text has no private paths and no names of the user or the machine; see ``without_names``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from specviz.cli.machine_facts import machine_facts
from specviz.cli.option_groups import add_json
from specviz.cli.terminal_text import Painter, one_line, painter_for, table
from specviz.cli.without_names import without_names
from specviz.record.numbers import SIZE, UNKNOWN, counted

KIND, SCHEMA = "specviz.info", 1


def add_info(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--load-torch", action="store_true", help="also import torch and list its devices"
    )
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    facts = without_names(machine_facts(load_torch=options.load_torch))
    if options.json:
        print(json.dumps({"kind": KIND, "schema": SCHEMA, **facts}, ensure_ascii=False))
    else:
        print("\n".join(render_info(painter_for(sys.stdout, os.environ), facts)))
    return 0


def render_info(painter: Painter, facts: dict[str, Any]) -> Iterator[str]:
    rows = [*_software(facts), *_machine(facts), *_data(facts)]
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        yield f"{painter.paint(name.ljust(width), 'dim')}  {one_line(text)}"
    models = facts["models"]
    if models:
        heads = ("name", "family", "size", "weights", "from")
        cells = [[each[head] for head in heads] for each in models]
        yield ""
        yield table(painter, list(zip(heads, *cells, strict=True)))


def _software(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    packages: dict[str, str | None] = facts["packages"]
    yield "specviz", f"{facts['specviz']} ({facts['installation']})"
    yield "Python", facts["python"]
    yield "system", facts["system"]
    for name, found in packages.items():
        build = f" (built for {facts['torch_build']})" if name == "torch" and found else ""
        yield name, f"{found or 'not installed'}{build}"
    if facts["torch_devices"] is not None:
        yield "devices", ", ".join(facts["torch_devices"])
    yield "kernels", "compiled" if facts["kernels_compiled"] else "not compiled yet"


def _machine(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    processor, memory = facts["processor"], facts["memory"]
    threads = f"{processor['usable_threads'] or UNKNOWN} of {processor['threads'] or UNKNOWN}"
    yield "processor", f"{processor['name']}, {threads} threads usable"
    yield "vectors", " ".join(processor["vector_features"]) or UNKNOWN
    yield "GPU", "; ".join(map(_gpu, facts["gpus"])) or "none found"
    free, total = (SIZE.shown(memory[each]) for each in ("free_bytes", "total_bytes"))
    yield "memory", f"{free} free of {total}"


def _gpu(found: dict[str, Any]) -> str:
    memory = "" if found["memory_bytes"] is None else f", {SIZE.shown(found['memory_bytes'])}"
    return f"{found['name']}{memory}" + (f", driver {found['driver']}" if found["driver"] else "")


def _data(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    data, models = facts["data"], facts["models"]
    if data["folder"] is None:
        yield "data", "no home folder"
    else:
        least = "" if data["complete"] else "at least "
        runs = "library not readable" if data["runs"] is None else counted(data["runs"], "run")
        size = f"{least}{SIZE.shown(data['bytes'])}, {runs}"
        yield "data", f"{data['folder']}: {size}; {SIZE.shown(data['free_bytes'])} of disk free"
    yield "settings", ", ".join(facts["settings"]) or "no SPECVIZ_ variable is set"
    yield "models", "not readable" if models is None else f"{len(models)} found"
