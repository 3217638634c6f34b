"""How real runs differ from seed to seed: ``python -m tests.comparing.measure_noise``.

Two lanes of the embedded pair, many seeds on one prompt. What is kept are the logarithms of
each run's tokens a second less its lane's mean, in pairs of one seed, and where they were made.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path
from statistics import fmean
from typing import Any

from specviz.analysis import metrics
from specviz.comparing import Measured
from specviz.lab.comparison import run_plan
from specviz.lab.kept_pairs import KeptPairs
from specviz.lanes import Lane, Plan, preset_suite
from specviz.pairing import PairSpec
from specviz.trace import RunConfig

FILE = Path(__file__).with_name("lane_noise.json")
SEEDS = 48


def measure() -> dict[str, Any]:
    spec = PairSpec(threads=1)
    lanes = tuple(Lane(spec=spec, config=RunConfig(gamma=gamma)) for gamma in (2, 8))
    plan = Plan(lanes=lanes, items=preset_suite()[:1], repeats=SEEDS)
    pairs, load = KeptPairs(), os.getloadavg()
    runs = list(
        run_plan(plan, lambda each: pairs.load(each, lambda _progress: None), lambda _run: None)
    )
    return {
        "lanes": list(plan.labels),
        "environment": dataclasses.asdict(runs[0].trace.environment),
        "cores": os.cpu_count(),
        "load_average": {"before": load, "after": os.getloadavg()},
        "noisy_runs": sum(metrics(run.trace).noisy is True for run in runs),
        "residuals": list(zip(*(residuals(runs, lane) for lane in (0, 1)), strict=True)),
    }


def residuals(runs: list[Measured], lane: int) -> list[float]:
    """By seed."""
    own = sorted((run for run in runs if run.job.lane == lane), key=lambda run: run.job.repeat)
    logs = [math.log(metrics(run.trace).tokens_per_second or math.nan) for run in own]
    return [value - fmean(logs) for value in logs]


if __name__ == "__main__":
    FILE.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
