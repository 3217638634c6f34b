"""A library with runs of the owner and of two students, some of them shared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specviz.access.roles import EVERYBODY, OPEN_OWNER, Person, Role
from specviz.record.trace import Trace
from specviz.store import SHARED, Library
from specviz.store.saving import save_run
from tests.traces import full_trace

ADA, BOB = "ada@uni.example", "bob@uni.example"
PERSONS = {
    "demo": EVERYBODY,
    "viewer": Person(key="vic@uni.example", role=Role.VIEWER),
    "ada": Person(key=ADA, role=Role.STUDENT),
    "owner": Person(key="prof@uni.example", role=Role.OWNER),
    "open": OPEN_OWNER,
}
# The person of each run, and whether it is shared. The last two runs are deleted.
RUNS = {
    "secret": ("", False),
    "shared": ("", True),
    "hers": (ADA, False),
    "his": (BOB, False),
    "his shared": (BOB, True),
    "hers gone": (ADA, False),
    "shared gone": ("", True),
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
    """The library and the ids of its runs, by name."""

    def __init__(self, path: Path | None = None) -> None:
        self.library = library = Library(path)
        self.ids: dict[str, str] = {}
        for name, (person, shared) in RUNS.items():
            self._add(name, person=person)
            library.annotate(self.ids[name], tags=[SHARED] if shared else [])
        library.delete([self.ids["hers gone"], self.ids["shared gone"]])
        for key, shares in (("open", [True]), ("half", [True, False]), ("closed", [False])):
            library.begin_comparison(key, f'{{"plan": "{key}"}}', f"{key} title")
            for item, shared in enumerate(shares):
                name = f"{key} {item}"
                self._add(name, comparison=key, job=(0, item, 0))
                library.share([self.ids[name]], shared=shared)

    def _add(self, name: str, **options: object) -> None:
        trace = trace_named(name)
        self.ids[name] = save_run(self.library, trace, name=name, **options)  # pyright: ignore

    def names(self, ids: object) -> set[str]:
        """Return the names of runs by their ids."""
        known = {run_id: name for name, run_id in self.ids.items()}
        return {known[each] for each in ids}  # type: ignore[attr-defined]


def trace_named(name: str) -> Trace:
    """Return a trace that differs from the traces of all other names."""
    trace = full_trace()
    return replace(trace, prompt=replace(trace.prompt, text=f"prompt of {name}"))
