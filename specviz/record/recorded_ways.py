"""What was measured of ways to speculate when the program was made, so that a page has something to
show before any run: figures from the records of runs, and where and how these were made."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.record.method_checks import BlockCheck, DraftsPoint
from specviz.record.stopping_reach import ReachOverRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWays:
    """``…_runs``: pair and settings in words."""

    created: str  # ISO 8601, UTC
    machine: str
    drafts: tuple[DraftsPoint, ...]
    drafts_runs: str
    blocks: BlockCheck
    blocks_runs: str
    stops: ReachOverRuns
    stops_runs: str
