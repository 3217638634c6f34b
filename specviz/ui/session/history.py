"""The runs of this browser session: what the stage shows, and the points on the chart."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import streamlit as st

from specviz import ASSETS
from specviz.player.replay import replay_html
from specviz.record.frames import rounds_frame
from specviz.record.metrics import Metrics, metrics
from specviz.record.throughput import Outlook
from specviz.record.trace import Trace
from specviz.store import load_trace, trace_to_json
from specviz.ui.session.feed import Feed
from specviz.worker.parent.client import Run

RECORDED = "recorded"
_FIRST = ASSETS / "first_trace.json"
_KEPT = 12
_OUTLOOK_SECONDS = 20.0
_KEY = "history"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A run as the stage shows it."""

    id: str
    trace: Trace
    figures: Metrics
    outlook: Outlook | None
    growing: bool
    name: str | None = None  # of a run that was opened from the library


@dataclass(slots=True)
class History:
    """Newest last. Old runs beyond a dozen are let go: their records are large.

    A run that was opened from the library takes the stage until another is started.
    """

    runs: list[Run] = field(default_factory=list)
    opened: Shown | None = None
    feed: Feed = field(default_factory=Feed)
    _figures: dict[str, tuple[int, Metrics]] = field(default_factory=dict)
    _finished_at: dict[str, float] = field(default_factory=dict)
    _files: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def current(self) -> Run | None:
        """The run that the stage is about; none while it shows one of the library."""
        return self.runs[-1] if self.runs and self.opened is None else None

    def add(self, run: Run) -> None:
        self.runs = [*self.runs[-_KEPT + 1 :], run]
        self.opened = None

    def open(self, run_id: str, name: str, trace: Trace) -> None:
        self.opened = Shown(
            id=run_id,
            trace=trace,
            figures=metrics(trace),
            outlook=None,
            growing=False,
            name=name,
        )

    def shown(self) -> Shown:
        """The newest run that has a round; before any has, the recorded one."""
        if self.opened is not None:
            return self.opened
        for run in reversed(self.runs):
            if (shown := self._shown(run)) is not None:
                return shown
        return recorded_run()

    def all_shown(self) -> list[Shown]:
        return [shown for run in self.runs if (shown := self._shown(run)) is not None]

    def awaits_outlook(self, run: Run) -> bool:
        """A forecast for the chart is made after a run, where there was none before it."""
        config, prompt = run.config, run.prompt
        foretells = prompt is not None and prompt.kind is not None and config.lossless
        if run.outlook is not None or run.state != "done" or not foretells:
            return False
        since = self._finished_at.setdefault(run.id, time.monotonic())
        return config.draft_method.needs_draft and time.monotonic() - since < _OUTLOOK_SECONDS

    def file(self, shown: Shown, name: str) -> str:
        """A run at rest as ``trace.json``, ``rounds.csv`` or ``replay.html``; made once."""
        key = (shown.id, name)
        if key not in self._files:
            self._files = {kept: text for kept, text in self._files.items() if kept[0] == shown.id}
            self._files[key] = _FILES[name](shown)
        return self._files[key]

    def _shown(self, run: Run) -> Shown | None:
        final = run.finished
        trace = run.so_far()
        if trace is None or not trace.rounds:
            return None
        return Shown(
            id=run.id,
            trace=trace,
            figures=self._figures_of(run, trace, final),
            outlook=run.outlook,
            growing=not final,
        )

    def _figures_of(self, run: Run, trace: Trace, final: bool) -> Metrics:
        """Made once for a run that is over, and once for each number of rounds before."""
        stage = -1 if final else len(trace.rounds)
        known = self._figures.get(run.id)
        if known is None or known[0] != stage:
            known = stage, metrics(trace, intervals=final)
            self._figures[run.id] = known
        return known[1]


_FILES: dict[str, Callable[[Shown], str]] = {
    "trace.json": lambda shown: trace_to_json(shown.trace),
    "rounds.csv": lambda shown: rounds_frame(shown.trace).to_csv(index=False),
    "replay.html": lambda shown: replay_html(shown.trace, shown.figures),
}


def session_history() -> History:
    return st.session_state.setdefault(_KEY, History())


@st.cache_resource(show_spinner=False)
def recorded_run() -> Shown:
    """The run that plays before any model is loaded."""
    trace = load_trace(_FIRST)
    return Shown(id=RECORDED, trace=trace, figures=metrics(trace), outlook=None, growing=False)
