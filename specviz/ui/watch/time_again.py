"""The button Time again, which repeats a run whose timing was inconclusive or imprecise."""

from __future__ import annotations

from specviz.figures.metrics import metrics
from specviz.figures.speedup_words import is_undecided, is_wide
from specviz.record.trace import Trace
from specviz.ui.session.history import History
from specviz.ui.session.presses import press_button
from specviz.worker.parent.client import Run, Worker

TIME_AGAIN = "time_again"


def offer_time_again(history: History) -> None:
    """Draw the button for a run whose timing was inconclusive or imprecise."""
    run = history.current
    if run is None or run.state != "done" or run.trace is None or not _is_imprecise(run.trace):
        return
    press_button(
        "Time again", key=TIME_AGAIN,
        help="Repeats the run and times it again. First close other programs that keep this "
             "machine busy.",
    )  # fmt: skip


def time_again(worker: Worker, session: str, run: Run) -> Run:
    """Submit the run again. Its seed and text do not change. Both timings are saved."""
    prompt = run.trace.prompt.text if run.trace else ""
    return worker.submit(session, run.spec, prompt, run.config)


def _is_imprecise(trace: Trace) -> bool:
    found = metrics(trace, intervals=False)
    if found.speedup_observed is None:
        return False
    return is_undecided(found) or is_wide(found.speedup_low, found.speedup_high)
