"""Shipped measurements of speculation methods, which pages show before the first run.

A measurement consists of acceptance, tokens per round and other values computed from recorded runs,
with the machine and the settings of these runs.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from specviz.figures.method_checks import BlockCheck, DraftsPoint
from specviz.figures.paired import Ratio, Spread
from specviz.figures.stopping_reach import ReachOverRuns
from specviz.values import Value

Found = TypeVar("Found")


class Recording(Value):
    created: str  # ISO 8601, UTC
    machine: str
    runs: str  # pair and settings, as text


class Recorded(Value, Generic[Found]):
    found: Found
    made: Recording


class TaskPoint(Value):
    """Acceptance and tokens per round, summarised over several prompts of one task."""

    task: str  # empty for the prompts of all tasks together
    temperature: float
    acceptance: Ratio  # its interval is over the prompts
    tau: Spread


class RecordedMethods(Value):
    drafts: Recorded[tuple[DraftsPoint, ...]]
    blocks: Recorded[BlockCheck]
    stops: Recorded[ReachOverRuns]
    tasks: Recorded[tuple[TaskPoint, ...]]
