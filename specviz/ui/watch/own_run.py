"""The same run on the pair as it is, made after a run with bodies, to stand beside it.

It is looked for in the library first, and kept there like any other.
"""

from __future__ import annotations

from specviz.errors import SpecvizError
from specviz.measure.own_speedup import kept_own_speedup
from specviz.record.body_words import OwnSpeedup, own_speedup_of
from specviz.record.metrics import metrics
from specviz.record.trace import Trace
from specviz.store import Library, Query
from specviz.ui.session.history import History
from specviz.worker.parent.client import Run, Worker


def see_to_own_run(worker: Worker, library: Library, session: str, history: History) -> None:
    """Find or make what the shown run lacks; a run that a person starts comes first."""
    _take(history)
    run = history.current
    if history.own_run is not None or run is None or run.state != "done" or run.trace is None:
        return
    if run.id in history.own or not run.trace.pair.has_bodies or run.trace.baseline is None:
        return
    history.own[run.id] = own = _kept(library, run.trace)
    if own is None:
        made = worker.submit(
            f"{session} as it is", run.spec.as_it_is, run.trace.prompt.text, run.config
        )
        history.own_run = (run.id, made)
        worker.prepare(run.spec)  # ready again when that is over


def leave_own_run(history: History) -> None:
    """A person starts a run, which is not to wait for this one."""
    if history.own_run is not None:
        run_id, made = history.own_run
        made.stop()
        history.own_run = None
        history.own.pop(run_id, None)


def _take(history: History) -> None:
    if history.own_run is None or not history.own_run[1].finished:
        return
    (run_id, made), history.own_run = history.own_run, None
    if made.state == "done" and made.trace is not None:
        history.tell_own(run_id, own_speedup_of(metrics(made.trace, intervals=False)))


def _kept(library: Library, trace: Trace) -> OwnSpeedup | None:
    try:
        return own_speedup_kept(library, trace)
    except SpecvizError:
        return None


def own_speedup_kept(library: Library, trace: Trace) -> OwnSpeedup | None:
    """Of a kept run of the same pair without bodies, with the interval that its row has."""
    value = kept_own_speedup(library, trace)
    if value is None:
        return None
    found = library.find(Query(pairs=(trace.pair.name,), gammas=(trace.config.gamma,)))
    rows = (each.summary for each in found if each.summary.speedup == value)
    row = next(rows, None)
    if row is None:
        return OwnSpeedup(value=value)
    return OwnSpeedup(value=value, low=row.speedup_low, high=row.speedup_high)


def is_making_own(history: History, run: Run) -> bool:
    return history.own_run is not None and history.own_run[0] == run.id
