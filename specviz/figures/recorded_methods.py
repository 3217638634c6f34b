"""What was measured of ways to speculate when the program was made, so that a page has something to
show before any run: figures from the records of runs, and where and how these were made."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.figures.method_checks import BlockCheck, DraftsPoint
from specviz.figures.stopping_reach import ReachOverRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    created: str  # ISO 8601, UTC
    machine: str
    runs: str  # pair and settings, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDrafts:
    found: tuple[DraftsPoint, ...]
    made: Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBlocks:
    found: BlockCheck
    made: Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStops:
    found: ReachOverRuns
    made: Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWays:
    drafts: RecordedDrafts
    blocks: RecordedBlocks
    stops: RecordedStops
