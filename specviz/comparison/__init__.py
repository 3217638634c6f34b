"""Compare lanes on the same prompts: a plan, its runs, their figures and a verdict.

Speeds are compared as paired log-ratios, so that effects of a prompt or seed on all lanes cancel
out. With one target, these are ratios of speedups. Each speedup is timed beside the target, so
drift of the machine between runs does not matter. With different targets, these are ratios of
rates. Intervals are Student's t over the seeds of a single prompt, or over prompts, with the mean
of the seeds of each prompt. For one repeat of one prompt, the interval covers only the timing.
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
