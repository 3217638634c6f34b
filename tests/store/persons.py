"""A library with runs of the owner and of two students, some of them shared."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from specviz.access.roles import EVERYBODY, OPEN_OWNER, Person, Role
from specviz.record.trace import Trace
from specviz.store import Library, NewRun
from specviz.store.saving import summary_of
from tests.traces import full_trace

ADA, BOB = "ada@uni.example", "bob@uni.example"
PERSONS = {
    "demo": EVERYBODY,
    "viewer": Person(key="vic@uni.example", role=Role.VIEWER),
    "ada": Person(key=ADA, role=Role.STUDENT),
    "owner": Person(key="prof@uni.example", role=Role.OWNER),
    "open": OPEN_OWNER,
}
# The person of each run outside a comparison. The runs that are gone are deleted.
RUNS = {
    "secret": "",
    "shared": "",
    "hers": ADA,
    "his": BOB,
    "his shared": BOB,
    "hers gone": ADA,
    "shared gone": "",
}
FOR_ALL = {"shared", "his shared", "open 0", "half 0"}
SEEN = {
    "demo": FOR_ALL,
    "viewer": FOR_ALL,
    "ada": {*FOR_ALL, "hers"},
    "owner": {*FOR_ALL, "hers", "his", "secret", "half 1", "closed 0"},
}
SEEN["open"] = SEEN["owner"]


class Shelf:
    """The library in the data folder and the ids of its runs, by name.

    The first one of a process is copied for the others, because each write waits for the disk.
    """

    def __init__(self) -> None:
        self.library = Library()
        made, self.ids = _made()
        self.library.path.parent.mkdir(parents=True, exist_ok=True)
        self.library.path.write_bytes(made)

    def names(self, ids: object) -> set[str]:
        """Return the names of runs by their ids."""
        known = {run_id: name for name, run_id in self.ids.items()}
        return {known[each] for each in ids}  # type: ignore[attr-defined]


@cache
def _made() -> tuple[bytes, dict[str, str]]:
    with TemporaryDirectory() as folder:
        library = Library(Path(folder) / "runs.db")
        for key in ("open", "half", "closed"):
            library.begin_comparison(key, f'{{"plan": "{key}"}}', f"{key} title")
        runs = [_run(name, person=person) for name, person in RUNS.items()]
        for key, count in (("open", 1), ("half", 2), ("closed", 1)):
            runs += [
                _run(f"{key} {item}", comparison=key, job=(0, item, 0)) for item in range(count)
            ]
        ids = dict(zip((run.name for run in runs), library.add_together(runs), strict=True))
        shared = {*FOR_ALL, "shared gone"}
        library.share([ids[name] for name in shared], shared=True)
        library.delete([ids["hers gone"], ids["shared gone"]])
        return library.path.read_bytes(), ids


def _run(name: str, **options: Any) -> NewRun:
    trace = trace_named(name)
    return NewRun(trace=trace, summary=summary_of(trace), name=name, **options)


def trace_named(name: str) -> Trace:
    """Return a trace that differs from the traces of all other names."""
    trace = full_trace()
    return replace(trace, prompt=replace(trace.prompt, text=f"prompt of {name}"))
