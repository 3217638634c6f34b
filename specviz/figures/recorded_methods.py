"""Shipped measurements of speculation methods, which pages show before the first run.

A measurement consists of figures computed from recorded runs, with the machine and the settings
of these runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from specviz.figures.method_checks import BlockCheck, DraftsPoint
from specviz.figures.paired import Ratio, Spread
from specviz.figures.stopping_reach import ReachOverRuns

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    created: str  # ISO 8601, UTC
    machine: str
    runs: str  # pair and settings, as text


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(Generic[Found]):
    found: Found
    made: Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPoint:
    """Acceptance and tokens per round over several prompts of one task."""

    task: str  # empty for the prompts of all tasks together
    temperature: float
    acceptance: Ratio  # its interval is over the prompts
    tau: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMethods:
    drafts: Recorded[tuple[DraftsPoint, ...]]
    blocks: Recorded[BlockCheck]
    stops: Recorded[ReachOverRuns]
    tasks: Recorded[tuple[TaskPoint, ...]]
