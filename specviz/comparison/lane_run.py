"""One run of a comparison, with its figures."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from specviz.comparison.plan import PlannedRun
from specviz.figures.metrics import Metrics, metrics
from specviz.record.trace import Trace


@dataclass(frozen=True, kw_only=True)
class LaneRun:
    """One run of a plan; ``memory_bytes``: its weights and, on a GPU, its working memory.

    The figures are worked out once, when first asked for; the class has no slots, because a cached
    property needs room for its value.
    """

    job: PlannedRun
    trace: Trace
    memory_bytes: int | None = None

    @functools.cached_property
    def figures(self) -> Metrics:
        """Without intervals, which take longest; ``resampled`` adds them."""
        return metrics(self.trace, intervals=False)
