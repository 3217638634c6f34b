"""Compare lanes on the same prompts: a plan, its runs, their results and a verdict.

A lane is a pair of models with settings. Speeds are compared as paired log-ratios, so that effects
of a prompt or seed on all lanes cancel out. If all lanes have the same target, a lane's speed is
its speedup. Each run also times the target alone, so it does not matter if the machine is slower in
one run than in another. If targets differ, a lane's speed is in tokens per second. Intervals are
Student's t. With several prompts, the sample has one value per prompt: the mean over its repeats.
With a single prompt, the sample has one value per repeat. With a single run, the interval covers
the timing of that run.
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
