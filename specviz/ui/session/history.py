"""The runs of a browser tab, and the run that the player of Watch shows."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field

import streamlit as st

from specviz import ASSETS
from specviz.figures.body_words import SpeedupWithoutBody
from specviz.figures.metrics import Metrics, metrics
from specviz.figures.throughput import Outlook
from specviz.record.server_run import ServerTrace
from specviz.record.trace import Trace
from specviz.store import load_trace
from specviz.ui.session.answers import Answers
from specviz.ui.session.page_library import current_person
from specviz.ui.session.sent_rounds import SentRounds
from specviz.ui.session.tabs import TAB_LINK, the_tabs
from specviz.ui.session.worker import resume_tab, this_tab
from specviz.values import Value
from specviz.worker.parent.client import Run

RECORDED = "recorded"
_FIRST = ASSETS / "first_trace.json"
_KEPT = 12
_OUTLOOK_SECONDS = 20.0
_FIRST_ROUND_SECONDS = 0.35  # seconds to wait for the first round, if the pair is loaded
_UNDISTURBED = 0.3  # seconds in which a short run may finish before the page is drawn
HISTORY = "history"  # session state
_LINK = "tab link"


class ShownRun(Value):
    """A run as the player shows it, running or finished."""

    id: str
    trace: Trace
    figures: Metrics
    outlook: Outlook | None = None
    growing: bool = False
    so_far: bool = False  # whether the target alone is still being timed
    name: str | None = None  # the run's name in the library, if opened from there
    own_speedup: SpeedupWithoutBody | None = None  # None if the run has no bodies
    forked: Trace | None = None  # the run that this one forks, if available


class ShownAnswer(Value):
    """An answer of another engine, opened from the library."""

    id: str
    trace: ServerTrace
    name: str


@dataclass(slots=True)
class History:
    """The last dozen runs of a tab, the newest last. Older runs are dropped to save memory.

    A run that was opened from the library is shown until another run is started.
    """

    runs: list[Run] = field(default_factory=list)
    opened: ShownRun | None = None
    opened_answer: ShownAnswer | None = None  # shown in place of a run
    sent_rounds: SentRounds = field(default_factory=SentRounds)
    # Speedups without bodies, by the id of the run with bodies; None while unknown.
    own: dict[str, SpeedupWithoutBody | None] = field(default_factory=dict)
    forked: dict[str, Trace] = field(default_factory=dict)  # the forked runs, by the fork's id
    # A run's id, and the moment at which replays of this run open.
    moment: tuple[str, dict[str, str]] | None = None
    # The number of the last event that was handled, by the kind of event.
    handled: dict[str, int] = field(default_factory=dict)
    # The id of the shown run, and the run without bodies that is in progress for it.
    run_without_body: tuple[str, Run] | None = None
    answers: Answers = field(default_factory=Answers)  # of serving engines
    _figures: dict[str, tuple[tuple[int, int], Metrics]] = field(default_factory=dict)
    _finished_at: dict[str, float] = field(default_factory=dict)

    @property
    def current(self) -> Run | None:
        """The newest run; None while the player shows a run from the library instead."""
        from_library = self.opened is not None or self.opened_answer is not None
        return self.runs[-1] if self.runs and not from_library else None

    def add(self, run: Run) -> None:
        self.runs = [*self.runs[-_KEPT + 1 :], run]
        known = {each.id for each in self.runs}
        self.forked = {each: trace for each, trace in self.forked.items() if each in known}
        self.close()

    def close(self) -> None:
        """Close a run opened from the library, so that the session's own runs are shown again."""
        self.opened = self.opened_answer = None

    def begin(self, run: Run) -> None:
        """Add a run that was just submitted, and wait briefly for its first round.

        Also wait for decoding to end, but at most until ``_UNDISTURBED`` seconds after the call.
        Drawing the page during a short run would slow the run down.
        """
        self.add(run)
        undisturbed = time.monotonic() + _UNDISTURBED
        run.wait_for_round(_FIRST_ROUND_SECONDS)
        while not run.decoded and time.monotonic() < undisturbed:
            time.sleep(0.01)

    def set_own_speedup(self, run_id: str, speedup: SpeedupWithoutBody | None) -> None:
        self.own[run_id] = speedup

    def fork(self, run: Run, other: Trace) -> None:
        """Begin a run that is a fork of ``other``."""
        self.forked[run.id] = other
        self.begin(run)

    def open_at(self, run_id: str, moment: dict[str, str]) -> None:
        """Store the moment (for example a round) at which a downloaded replay of the run opens."""
        self.moment = run_id, moment

    def moment_of(self, run_id: str) -> dict[str, str] | None:
        return self.moment[1] if self.moment and self.moment[0] == run_id else None

    def open(
        self,
        run_id: str,
        name: str,
        trace: Trace,
        own_speedup: SpeedupWithoutBody | None = None,
        forked: Trace | None = None,
    ) -> None:
        self.opened = ShownRun(
            id=run_id,
            trace=trace,
            figures=metrics(trace),
            name=name,
            own_speedup=own_speedup,
            forked=forked,
        )

    def shown(self) -> ShownRun:
        """Return the run to show.

        The result is the run opened from the library, else the newest run with a round, else the
        recorded run.
        """
        if self.opened is not None:
            return self.opened
        for run in reversed(self.runs):
            if (shown := self._shown(run)) is not None:
                return shown
        return recorded_run()

    def shown_runs(self) -> list[ShownRun]:
        return [shown for run in self.runs if (shown := self._shown(run)) is not None]

    def awaits_outlook(self, run: Run) -> bool:
        """Return whether the forecast of a finished run is missing and may still arrive."""
        config, prompt = run.config, run.prompt
        can_forecast = prompt is not None and prompt.kind is not None and config.by_odds
        if run.outlook is not None or run.state != "done" or not can_forecast:
            return False
        since = self._finished_at.setdefault(run.id, time.monotonic())
        predicted = config.draft_method.needs_draft and config.fixed_length
        return predicted and time.monotonic() - since < _OUTLOOK_SECONDS

    def _shown(self, run: Run) -> ShownRun | None:
        final = run.finished
        trace = run.so_far()
        if trace is None or not trace.rounds:
            return None
        return ShownRun(
            id=run.id,
            trace=trace,
            figures=self._figures_of(run, trace, final),
            outlook=run.outlook,
            growing=not final,
            so_far=not (final or run.timed),
            own_speedup=self.own.get(run.id),
            forked=self.forked.get(run.id),
        )

    def _figures_of(self, run: Run, trace: Trace, final: bool) -> Metrics:
        """Return the run's metrics, with intervals if the run has finished (``final``).

        The metrics are cached until new rounds or new times of the target alone arrive.
        """
        slices = len(trace.baseline.slices) if trace.baseline else 0
        version = (-1, -1) if final else (len(trace.rounds), slices)
        known = self._figures.get(run.id)
        if known is None or known[0] != version:
            known = version, metrics(trace, intervals=final)
            self._figures[run.id] = known
        return known[1]


def session_history() -> History:
    """Return the history of this tab, restored after a reload. Call it before ``this_tab``."""
    if HISTORY not in st.session_state:
        wanted = st.query_params.get(TAB_LINK)
        found = the_tabs().take(wanted, current_person().key) if wanted else None
        st.session_state[HISTORY] = History()
        if found is not None and isinstance(found[1], History):
            resume_tab(found[0])
            st.session_state[HISTORY] = found[1]
            found[1].sent_rounds = SentRounds()  # the reloaded page has no rounds yet
            found[1].answers.sent_rounds = SentRounds()
            st.session_state[_LINK] = wanted
    return st.session_state[HISTORY]


def remember_tab(history: History) -> None:
    """If the tab has a run, save the tab's state for a reload; put the state's key into the URL."""
    if not (history.runs or history.answers.runs):
        return
    key = st.session_state.setdefault(_LINK, uuid.uuid4().hex[:12])
    the_tabs().keep(key, this_tab().id, history, current_person().key)
    if st.query_params.get(TAB_LINK) != key:
        st.query_params[TAB_LINK] = key


@st.cache_resource(show_spinner=False)
def recorded_run() -> ShownRun:
    """Return the run that ships with specviz and is shown before any model is loaded."""
    trace = load_trace(_FIRST)
    return ShownRun(id=RECORDED, trace=trace, figures=metrics(trace))
