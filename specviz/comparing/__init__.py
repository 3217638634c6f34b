"""What the runs of a plan say about its lanes: figures, intervals, a verdict in words.

Pure: a plan and its measured runs in, values out. Rates are compared as paired log-ratios, so
that what a prompt or a seed does to every lane alike falls out. The interval is Student's t,
over seeds for one prompt, and over prompts (each the mean of its seeds) where there are
several; it says which. One repeat of one prompt gives no interval and no verdict.
"""

from specviz.comparing.basis import basis, interval_units, interval_words, num_runs, settings_of
from specviz.comparing.compared import Comparison, KindLane, KindResult, compare
from specviz.comparing.paired import Over, Ratio, Spread, t_quantile
from specviz.comparing.plain import comparison_to_json
from specviz.comparing.results import LaneResult, Measured, TargetResult, is_whole
from specviz.comparing.verdict import Verdict

__all__ = [
    "Comparison",
    "KindLane",
    "KindResult",
    "LaneResult",
    "Measured",
    "Over",
    "Ratio",
    "Spread",
    "TargetResult",
    "Verdict",
    "basis",
    "compare",
    "comparison_to_json",
    "interval_units",
    "interval_words",
    "is_whole",
    "num_runs",
    "settings_of",
    "t_quantile",
]
