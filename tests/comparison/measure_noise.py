"""Record the noise of real runs: ``python -m tests.comparison.measure_noise``, on a quiet machine.

Runs two lanes of the embedded pair with several seeds on every preset. Stores the log of each run's
tokens per second minus its lane's mean, as pairs of the two lanes by prompt and seed, and the
environment.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path
from statistics import fmean
from typing import Any

from specviz.comparison import LaneRun
from specviz.comparison.plan import Lane, Plan, preset_suite
from specviz.comparison.plan_runner import run_plan
from specviz.figures.metrics import metrics
from specviz.measure.run_makers import InProcessMaker, in_turn
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig

FILE = Path(__file__).with_name("lane_noise.json")
SEEDS = 3  # per prompt


def measure() -> dict[str, Any]:
    spec = PairSpec(threads=1)
    lanes = tuple(Lane(spec=spec, config=RunConfig(gamma=gamma)) for gamma in (2, 8))
    plan = Plan(lanes=lanes, items=preset_suite(), repeats=SEEDS)
    maker, load = InProcessMaker(lambda _progress: None), os.getloadavg()
    runs = list(
        run_plan(plan, lambda blocks: in_turn(maker.make, blocks, set()), lambda _made: None)
    )
    residuals = residuals_of(runs)
    return {
        "lanes": list(plan.labels),
        "environment": dataclasses.asdict(runs[0].trace.environment),
        "cores": os.cpu_count(),
        "load_average": {"before": load, "after": os.getloadavg()},
        "residuals": [
            [[residuals[lane, item, seed] for lane in (0, 1)] for seed in range(SEEDS)]
            for item in range(len(plan.items))
        ],
    }


def residuals_of(runs: list[LaneRun]) -> dict[tuple[int, int, int], float]:
    """Return the residuals by lane, prompt and seed."""
    logs = {run.job.key: math.log(metrics(run.trace).tokens_per_second or math.nan) for run in runs}
    means = [fmean(value for key, value in logs.items() if key[0] == lane) for lane in (0, 1)]
    return {key: value - means[key[0]] for key, value in logs.items()}


if __name__ == "__main__":
    FILE.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
