"""Compare lanes on the same prompts: a plan, its runs, their figures and a verdict.

Speeds are compared as paired log-ratios, so that effects of a prompt or seed on all lanes cancel
out. If all lanes have the same target, the speed is the speedup: it is timed beside the target, so
drift of the machine between runs does not matter. Otherwise the speed is in tokens per second.
Intervals are Student's t. For several prompts, they are over prompts, each with the mean of its
repeats; for a single prompt, over its repeats. For one run, the interval covers the timing.
"""

from specviz.comparison.lane_results import (
    LaneResult,
    LaneRun,
    TargetResult,
    is_whole,
    representative,
)
from specviz.comparison.results import Comparison, KindResult, compare
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
