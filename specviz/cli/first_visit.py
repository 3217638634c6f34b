"""Time a first visit to the dashboard, by making the main page's first run without a browser.

The clock starts before the worker process is started. It measures the time to the first round, and
the time until the target alone has been timed, because only then is the speedup known.
"""

from __future__ import annotations

import time

from specviz.errors import DeviceError, SpecvizError
from specviz.figures.metrics import metrics
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.run_config import RunConfig
from specviz.values import Value

_TIME_LIMIT = 600.0  # seconds before giving up
_POLL_SECONDS = 0.01


class FirstVisit(Value):
    """The speedup, the seconds to the first round, and the seconds until the speedup was known."""

    first_round: float
    verdict: float
    speedup: float | None


def first_visit(spec: PairSpec, *, budget: float | None = None) -> FirstVisit:
    """Run the first preset prompt with the default settings and return the times.

    ``budget``: seconds for timing the target alone; None for the default of the page.
    """
    from specviz.worker.parent.client import Worker

    began = time.perf_counter()
    worker = Worker()
    try:
        prompt = read_presets()[0].text
        run = worker.submit("first visit", spec, prompt, RunConfig(), budget=budget)
        run.wait_for_round(_TIME_LIMIT)
        first_round = time.perf_counter() - began
        while not (run.timed or run.finished) and time.perf_counter() - began < _TIME_LIMIT:
            time.sleep(_POLL_SECONDS)
        verdict = time.perf_counter() - began
        trace = run.so_far()
        if run.error is not None:
            raise run.error
        if trace is None or trace.baseline is None:
            raise _no_speedup()
        speedup = metrics(trace).speedup_observed
        return FirstVisit(first_round=first_round, verdict=verdict, speedup=speedup)
    finally:
        worker.close()


def _no_speedup() -> SpecvizError:
    return DeviceError("The first visit measured no speedup.", remedy="Try smaller sizes.")
