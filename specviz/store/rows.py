"""The values of the run library: a run's columns, what to look for, and what is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specviz.record.server_run import AnyTrace

SortKey = Literal[
    "created", "name", "pair", "kind", "gamma", "temperature", "tokens",
    "alpha_observed", "tau", "tokens_per_second", "speedup",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What a list shows of a run, so that it need not open the trace.

    Of the answer of another engine, what that engine keeps to itself is None.
    """

    created: str  # ISO 8601, UTC
    pair: str  # of another engine, its model
    device: str  # empty where another engine ran
    kind: str | None  # None: own words
    prompt_head: str
    text_head: str
    gamma: int | None
    temperature: float
    drafter: str | None
    rule: str | None
    finish: str
    tokens: int | None
    alpha_observed: float | None  # None also for an older run that is still to be read
    alpha_expected: float | None
    tau: float | None
    tokens_per_second: float | None
    speedup: float | None  # observed
    # Its interval; None also for a run that was kept before there was one.
    speedup_low: float | None = None
    speedup_high: float | None = None
    # Along its own words, from their odds and the step costs; None for a run that lacks either.
    speedup_expected: float | None = None
    fork: str | None = None  # where the run left another, in words
    bodies: str | None = None  # in words; None for a run that was kept before they were
    engine: str | None = None  # None for our own
    seed: int | None = None  # None for a run that was kept before it was


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to be added: ``comparison`` is the key of one that was begun, ``job`` its lane, item
    and repeat in it. Without an id it gets one."""

    trace: AnyTrace
    summary: RunSummary
    run_id: str | None = None
    name: str = ""
    comparison: str | None = None
    job: tuple[int, int, int] | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run of the library without its trace."""

    id: str
    name: str
    note: str
    tags: tuple[str, ...]
    summary: RunSummary
    comparison: str | None
    job: tuple[int, int, int] | None  # lane, item, repeat of that comparison
    memory_bytes: int | None
    trace_bytes: int  # as kept, compressed


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which runs, in which order. An empty tuple lets everything through.

    Every word of ``search`` must occur in the name, the note, the tags, the prompt's head or
    the text's head, in either case.
    """

    search: str = ""
    pairs: tuple[str, ...] = ()
    kinds: tuple[str | None, ...] = ()
    tags: tuple[str, ...] = ()  # all of them
    rules: tuple[str, ...] = ()
    finishes: tuple[str, ...] = ()
    drafters: tuple[str, ...] = ()
    bodies: tuple[str, ...] = ()
    gammas: tuple[int, ...] = ()
    temperatures: tuple[float, ...] = ()
    engines: tuple[str | None, ...] = ()  # None: our own
    comparison: str | None = None
    deleted: bool = False  # the runs that were deleted and can be restored
    sort: SortKey = "created"
    descending: bool = True
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """What there is to filter by."""

    pairs: tuple[str, ...] = ()
    kinds: tuple[str | None, ...] = ()
    tags: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    finishes: tuple[str, ...] = ()
    drafters: tuple[str, ...] = ()
    bodies: tuple[str, ...] = ()
    gammas: tuple[int, ...] = ()
    temperatures: tuple[float, ...] = ()
    engines: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """A comparison that was begun, and how many of its jobs are kept."""

    key: str
    title: str
    plan_json: str
    created: str
    num_runs: int
