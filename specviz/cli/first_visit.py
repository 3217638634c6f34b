"""A first visit, as the page makes it but without a browser: from no worker to a verdict.

The clock starts with no process, no pair and no body, and stops first at the first round, and then
when the target alone has been timed, so that the speedup stands.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from specviz.errors import DeviceError, SpecvizError
from specviz.figures.metrics import metrics
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.run_config import RunConfig

_LONGEST = 600.0  # seconds, after which nobody waits any more
_LOOK = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstVisit:
    """In seconds since the visit began."""

    first_round: float
    verdict: float
    speedup: float | None


def first_visit(spec: PairSpec, *, budget: float | None = None) -> FirstVisit:
    """The first preset with the usual settings. ``budget``: as the page times, if None."""
    from specviz.worker.parent.client import Worker

    began = time.perf_counter()
    worker = Worker()
    try:
        prompt = read_presets()[0].text
        run = worker.submit("first visit", spec, prompt, RunConfig(), budget=budget)
        run.wait_for_round(_LONGEST)
        first_round = time.perf_counter() - began
        while not (run.timed or run.finished) and time.perf_counter() - began < _LONGEST:
            time.sleep(_LOOK)
        verdict = time.perf_counter() - began
        trace = run.so_far()
        if run.error is not None:
            raise run.error
        if trace is None or trace.baseline is None:
            raise _no_verdict()
        speedup = metrics(trace).speedup_observed
        return FirstVisit(first_round=first_round, verdict=verdict, speedup=speedup)
    finally:
        worker.close()


def _no_verdict() -> SpecvizError:
    return DeviceError("A first visit came to no verdict.", remedy="Try smaller bodies.")
