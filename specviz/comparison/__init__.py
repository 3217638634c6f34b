"""Lanes compared on the same prompts: a plan, its runs, their figures, a verdict in words.

Speeds are compared as paired log-ratios, so that what a prompt or a seed does to all lanes alike
cancels out: the speedups over one target, each timed beside it, so that a machine that drifts from
run to run does not matter; rates where the targets differ. The interval is Student's t: over the
seeds of a single prompt, or over prompts, where a prompt counts by the mean of its seeds. One
repeat of one prompt has the interval of its timing.
"""

from specviz.comparison.lane_results import (
    LaneResult,
    LaneRun,
    TargetResult,
    is_whole,
    representative,
)
from specviz.comparison.results import Comparison, KindLane, KindResult, compare
from specviz.comparison.to_json import comparison_to_json
from specviz.comparison.verdict import ComparisonVerdict
from specviz.comparison.words import (
    basis,
    body_facts,
    interval_units,
    interval_words,
    num_runs,
    settings_of,
)
from specviz.figures.paired import Over, Ratio, Spread

__all__ = [
    "Comparison",
    "ComparisonVerdict",
    "KindLane",
    "KindResult",
    "LaneResult",
    "LaneRun",
    "Over",
    "Ratio",
    "Spread",
    "TargetResult",
    "basis",
    "body_facts",
    "compare",
    "comparison_to_json",
    "interval_units",
    "interval_words",
    "is_whole",
    "num_runs",
    "representative",
    "settings_of",
]
