"""A process that adds runs to a library and prints each id once the run is stored."""

from __future__ import annotations

import sys
from pathlib import Path

from specviz.store import Library, load_trace
from specviz.store.saving import save_run


def write(library: Library, trace_file: Path, count: int) -> None:
    trace = load_trace(trace_file)
    for number in range(count):
        made = save_run(library, trace, name=f"run {number}")
        sys.stdout.write(f"{made}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    write(Library(Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3]))
