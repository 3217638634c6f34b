"""Simulations that go on a little at each tick until their intervals are narrow.

Each batch is as large as all before it, so that a chart with a logarithmic axis grows evenly,
but never longer than its share of a tick.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

import numpy as np
import streamlit as st

from specviz.record.numbers import PERCENT
from specviz.theory.simulation import Estimate, Simulated
from specviz.ui.session.redraw import redraw_while_busy

NARROW = 0.003  # half of the interval, as a share of the mean, at which simulations end
_FEWEST, _MOST = 1_000, 2_000_000  # texts
_FIRST = 32
_BUDGET = 0.12  # seconds of work a tick, of this thread's own
_TICK = 0.5
_KEY = "gathered"


class Writer(Protocol):
    """What simulates texts."""

    def run(self, texts: int, rng: np.random.Generator) -> Simulated: ...


class Course:
    """One simulation: its result so far, and how its rejections came to it."""

    def __init__(self, writer: Writer, narrow: float = NARROW) -> None:
        self.result: Simulated | None = None
        self.estimates: list[Estimate] = []
        self._writer, self._narrow = writer, narrow
        self._rng = np.random.default_rng(0)
        self._size = 0
        self.seconds = 0.0  # that the last batch took

    @property
    def done(self) -> bool:
        if self.result is None or self.result.texts < _FEWEST:
            return False
        return self.width <= self._narrow or self.result.texts >= _MOST

    @property
    def width(self) -> float:
        """Half of the interval as a share of the mean."""
        if not self.estimates:
            return math.inf
        found = self.estimates[-1]
        half = 1.96 * found.standard_error
        return 0.0 if half == 0.0 else half / found.mean

    def advance(self, seconds: float) -> None:
        """Simulate one batch of about so long at most, and of the first size at least."""
        self._size = self._next_size(seconds)
        begun = time.thread_time()
        batch = self._writer.run(self._size, self._rng)
        self.seconds = time.thread_time() - begun
        self.result = batch if self.result is None else self.result + batch
        self.estimates.append(self.result.rejections)

    def _next_size(self, seconds: float) -> int:
        if self.result is None:
            return _FIRST
        pace = 2.0  # also where the last batch was too short for the clock
        if self.seconds > 0.0:
            pace = min(pace, seconds / self.seconds)
        return max(_FIRST, min(self.result.texts, int(self._size * pace)))


class Gathering:
    """Several simulations of the same settings, side by side."""

    def __init__(
        self, settings: Hashable, writers: Mapping[str, Writer], narrow: float = NARROW
    ) -> None:
        self.settings, self.narrow = settings, narrow
        self.courses = {name: Course(writer, narrow) for name, writer in writers.items()}

    @property
    def done(self) -> bool:
        return all(each.done for each in self.courses.values())

    @property
    def widest(self) -> float:
        return max((each.width for each in self.courses.values()), default=0.0)

    def advance(self) -> None:
        """One tick's work: the quick ones leave their time to the slow.

        The first tick answers a changed setting, so it starts only one of them.
        """
        open_ = sorted((c for c in self.courses.values() if not c.done), key=lambda c: c.seconds)
        until = time.thread_time() + _BUDGET
        if not self.estimates():
            open_ = open_[:1]
        for place, course in enumerate(open_):
            left = max(0.0, until - time.thread_time())
            course.advance(left / (len(open_) - place))

    @property
    def texts(self) -> int:
        """Of the simulation that has the fewest."""
        counts = [each.count for each in self.estimates().values()]
        return min(counts) if len(counts) == len(self.courses) and counts else 0

    def estimates(self) -> dict[str, Estimate]:
        """What each has come to; empty before the first batch."""
        return {name: each.estimates[-1] for name, each in self.courses.items() if each.estimates}


def gathering(
    name: str,
    settings: Hashable,
    writers: Callable[[], Mapping[str, Writer]],
    narrow: float = NARROW,
) -> Gathering:
    """The session's simulations of that name; begun anew when a setting has changed."""
    kept = st.session_state.setdefault(_KEY, {})
    known = kept.get(name)
    if not isinstance(known, Gathering) or known.settings != settings:
        known = kept[name] = Gathering(settings, writers(), narrow)
    return known


def gather(work: Gathering, paused: bool, draw: Callable[[], None]) -> None:
    """Go on twice a second and draw what there is; the ticks end with the work."""

    def go_on() -> bool:
        """Whether there is more to do."""
        if not (paused or work.done):
            work.advance()
        return not (paused or work.done)

    redraw_while_busy(go_on(), go_on, bool, lambda _: draw(), seconds=_TICK)


def progress(work: Gathering, paused: bool) -> str:
    """How far it is, in words."""
    texts = f"{work.texts:,} texts"
    if work.done and work.widest <= work.narrow:
        return f"{texts}; stopped: 95 % interval within ± {PERCENT.shown(work.narrow)}."
    if work.done:
        return f"{texts}; stopped: 95 % interval still ± {PERCENT.shown(work.widest)}."
    if paused:
        return f"Paused after {texts}."
    return f"{texts} so far; stops at a 95 % interval of ± {PERCENT.shown(work.narrow)}."
