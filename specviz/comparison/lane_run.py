"""One run of a comparison, with the values computed from its trace."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from specviz.comparison.plan import PlannedRun
from specviz.figures.metrics import Metrics, metrics
from specviz.record.trace import Trace


@dataclass(frozen=True, kw_only=True)
class LaneRun:
    """One run of a plan; ``memory_bytes`` counts weights and, on a GPU, working memory.

    The class has no slots, because ``figures`` is cached in the instance dictionary.
    """

    job: PlannedRun
    trace: Trace
    memory_bytes: int | None = None

    @functools.cached_property
    def figures(self) -> Metrics:
        """Return the run's speed, acceptance and so on, but not the intervals, which take long."""
        return metrics(self.trace, intervals=False)
