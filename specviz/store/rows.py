"""Value types of the run library: a run's columns, queries and their results."""

from __future__ import annotations

from typing import Literal

from specviz.record.server_run import AnyTrace
from specviz.values import Value

SortKey = Literal[
    "created", "name", "pair", "kind", "gamma", "temperature", "tokens",
    "alpha_observed", "tau", "tokens_per_second", "speedup",
]  # fmt: skip


class RunSummary(Value):
    """The columns that lists of runs show, stored apart from the run's trace.

    For answers of other engines, fields that the engine does not report are None.
    """

    created: str  # ISO 8601, UTC
    pair: str  # for another engine, its model
    device: str  # empty for another engine
    kind: str | None  # None: the user's own prompt
    prompt_head: str
    text_head: str
    gamma: int | None
    temperature: float
    drafter: str | None
    rule: str | None
    finish: str
    tokens: int | None
    alpha_observed: float | None  # None also for an older row not yet filled in
    alpha_expected: float | None
    tau: float | None
    tokens_per_second: float | None
    speedup: float | None  # observed
    # Interval of the observed speedup; None also for runs stored before these columns existed.
    speedup_low: float | None = None
    speedup_high: float | None = None
    # Computed from the odds along the run's text and the step costs; None if either is missing.
    speedup_expected: float | None = None
    fork: str | None = None  # where the run was forked, as text
    bodies: str | None = None  # as text; None for runs stored before bodies existed
    engine: str | None = None  # None for our own engine
    seed: int | None = None  # None for runs stored before this column existed
    # Accepted candidates of the first rounds, separated by commas; None if unknown or not stored.
    accepted: str | None = None
    weights: str | None = None  # as in ``PairInfo.chosen_weights``; None for older runs


class NewRun(Value):
    """A run to add to the library.

    ``comparison`` is the key of an existing comparison. ``job`` is the run's place in this
    comparison: the indices of the compared setting (lane), the prompt (item) and the repeat. If
    ``run_id`` is None, an id is generated. ``person`` is the key of the person who made the run; ""
    for the owner.
    """

    trace: AnyTrace
    summary: RunSummary
    run_id: str | None = None
    name: str = ""
    comparison: str | None = None
    job: tuple[int, int, int] | None = None
    memory_bytes: int | None = None
    person: str = ""


class RunRow(Value):
    """A run of the library without its trace."""

    id: str
    name: str
    note: str
    tags: tuple[str, ...]
    summary: RunSummary
    comparison: str | None
    job: tuple[int, int, int] | None  # lane, item, repeat in that comparison
    memory_bytes: int | None
    trace_bytes: int  # compressed
    # Who made the run; "" for the owner, and for everybody else if the reader is not the owner.
    person: str = ""


class Facets(Value):
    """The choices for filtering runs: for each filtered column, the values that occur in it."""

    pairs: tuple[str, ...] = ()
    kinds: tuple[str | None, ...] = ()
    tags: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    finishes: tuple[str, ...] = ()
    drafters: tuple[str, ...] = ()
    bodies: tuple[str, ...] = ()
    gammas: tuple[int, ...] = ()
    temperatures: tuple[float, ...] = ()
    engines: tuple[str | None, ...] = ()  # None: our own engine
    persons: tuple[str, ...] = ()  # for the owner only; empty if all runs are the owner's


class Query(Facets):
    """Filter and order of a list of runs. An empty tuple filters nothing.

    A run must have all of the tags and, for every other filtered column, one of the values. Every
    word of ``search`` must occur in the name, the note, the tags, or the first characters of the
    prompt or the text; case is ignored.
    """

    search: str = ""
    comparison: str | None = None
    of_comparisons: bool = True  # whether to include runs of comparisons
    deleted: bool = False  # True: only deleted runs, which can still be restored
    sort: SortKey = "created"
    descending: bool = True
    offset: int = 0
    limit: int | None = None


class ComparisonRow(Value):
    """A comparison, and the number of its stored runs."""

    key: str
    title: str
    plan_json: str
    created: str
    num_runs: int
