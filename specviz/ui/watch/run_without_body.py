"""Repeat a run of enlarged models at the models' real size, to show the speedup at that size.

An enlarged model has a simulated size (in code: a body). If the library already has such a run at
the real size, no new run is made. A new run is saved in the library.
"""

from __future__ import annotations

from specviz.errors import SpecvizError
from specviz.figures.body_words import SpeedupWithoutBody, speedup_without_body_of
from specviz.figures.metrics import metrics
from specviz.measure.speedup_without_body import kept_speedup_without_body
from specviz.record.trace import Trace
from specviz.store import Library, Query
from specviz.ui.session.history import History
from specviz.worker.parent.client import Run, Worker


def ensure_run_without_body(
    worker: Worker, library: Library, session: str, history: History
) -> None:
    """Find or start a run with the current run's settings and models, at the models' real size.

    Do this only if the current run is finished, used a simulated size, and timed the target alone.
    Start no run for a run that had no kernels yet, because the new run might have them.
    """
    _store_finished_speedup(history)
    run = history.current
    if history.run_without_body is not None:
        return
    if run is None or run.state != "done" or run.trace is None:
        return
    if run.id in history.own or not run.trace.pair.has_bodies or run.trace.baseline is None:
        return
    history.own[run.id] = own = _kept(library, run.trace)
    if own is None and run.trace.environment.has_kernels:
        made = worker.submit(
            f"{session} as it is", run.spec.without_bodies, run.trace.prompt.text, run.config
        )
        history.run_without_body = (run.id, made)
        worker.prepare(run.spec)  # load the pair with bodies again afterwards


def leave_run_without_body(history: History) -> None:
    """Stop the run at the real size, so that it does not delay a run that the user starts."""
    if history.run_without_body is not None:
        run_id, made = history.run_without_body
        made.stop()
        history.run_without_body = None
        history.own.pop(run_id, None)


def _store_finished_speedup(history: History) -> None:
    if history.run_without_body is None or not history.run_without_body[1].finished:
        return
    (run_id, made), history.run_without_body = history.run_without_body, None
    if made.state == "done" and made.trace is not None:
        figures = metrics(made.trace, intervals=False)
        history.set_own_speedup(run_id, speedup_without_body_of(figures))


def _kept(library: Library, trace: Trace) -> SpeedupWithoutBody | None:
    try:
        return speedup_without_body_kept(library, trace)
    except SpecvizError:
        return None


def speedup_without_body_kept(library: Library, trace: Trace) -> SpeedupWithoutBody | None:
    """Return the speedup of a saved run with the trace's settings and models, at real size.

    The result includes the speedup's interval. It is None if there is no such run.
    """
    value = kept_speedup_without_body(library, trace)
    if value is None:
        return None
    found = library.find(Query(pairs=(trace.pair.name,), gammas=(trace.config.gamma,)))
    rows = (each.summary for each in found if each.summary.speedup == value)
    row = next(rows, None)
    if row is None:
        return SpeedupWithoutBody(value=value)
    return SpeedupWithoutBody(value=value, low=row.speedup_low, high=row.speedup_high)


def is_making_run_without_body(history: History, run: Run) -> bool:
    return history.run_without_body is not None and history.run_without_body[0] == run.id
