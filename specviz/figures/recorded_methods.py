"""Shipped measurements of speculation methods, which pages show before the first run.

A measurement consists of figures computed from recorded runs, with the machine and the settings
of these runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.figures.method_checks import BlockCheck, DraftsPoint
from specviz.figures.stopping_reach import ReachOverRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    created: str  # ISO 8601, UTC
    machine: str
    runs: str  # pair and settings, as text


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
class RecordedMethods:
    drafts: RecordedDrafts
    blocks: RecordedBlocks
    stops: RecordedStops
