"""Simulations that run one batch per redraw until their intervals are narrow.

Each batch doubles the number of simulated texts, so that a chart with a logarithmic axis grows
evenly. A batch is smaller if a doubling would take longer than the simulation's share of the time
for one redraw.
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

NARROW = 0.003  # a simulation ends at this half-width of its interval, as a share of the mean
_FEWEST, _MOST = 1_000, 2_000_000  # texts
_FIRST = 32
_BUDGET = 0.12  # seconds of processor time for one redraw
_TICK = 0.5
_KEY = "simulations"


class TextSimulator(Protocol):
    """Simulates texts and counts their rejections."""

    def run(self, texts: int, rng: np.random.Generator) -> Simulated: ...


class GrowingSimulation:
    """A simulation that runs in batches: its result so far, and an estimate after each batch."""

    def __init__(self, simulator: TextSimulator, narrow: float = NARROW) -> None:
        self.result: Simulated | None = None
        self.estimates: list[Estimate] = []
        self._simulator, self._narrow = simulator, narrow
        self._rng = np.random.default_rng(0)
        self._size = 0
        self.seconds = 0.0  # processor time of the last batch

    @property
    def done(self) -> bool:
        if self.result is None or self.result.texts < _FEWEST:
            return False
        return self.width <= self._narrow or self.result.texts >= _MOST

    @property
    def width(self) -> float:
        """The half-width of the 95 % interval of the mean rejections, as a share of the mean."""
        if not self.estimates:
            return math.inf
        found = self.estimates[-1]
        half = 1.96 * found.standard_error
        return 0.0 if half == 0.0 else half / found.mean

    def advance(self, seconds: float) -> None:
        """Simulate one batch that takes about ``seconds`` at most, and store its results."""
        self._size = self._next_size(seconds)
        start = time.thread_time()
        batch = self._simulator.run(self._size, self._rng)
        self.seconds = time.thread_time() - start
        self.result = batch if self.result is None else self.result + batch
        self.estimates.append(self.result.rejections)

    def _next_size(self, seconds: float) -> int:
        if self.result is None:
            return _FIRST
        growth = 2.0  # also if the last batch was too short to be timed
        if self.seconds > 0.0:
            growth = min(growth, seconds / self.seconds)
        return max(_FIRST, min(self.result.texts, int(self._size * growth)))


class SimulationGroup:
    """Simulations of several methods. They share their settings and the time of a redraw."""

    def __init__(
        self, settings: Hashable, simulators: Mapping[str, TextSimulator], narrow: float = NARROW
    ) -> None:
        self.settings, self.narrow = settings, narrow
        self.simulations = {
            name: GrowingSimulation(simulator, narrow) for name, simulator in simulators.items()
        }

    @property
    def done(self) -> bool:
        return all(each.done for each in self.simulations.values())

    @property
    def widest(self) -> float:
        return max((each.width for each in self.simulations.values()), default=0.0)

    def advance(self) -> None:
        """Run a batch of each unfinished simulation, fastest first.

        Time that a fast simulation does not use goes to slower simulations. The first call runs
        only one simulation, so that the first redraw after a changed setting is quick.
        """
        unfinished = [each for each in self.simulations.values() if not each.done]
        unfinished.sort(key=lambda each: each.seconds)
        until = time.thread_time() + _BUDGET
        if not self.estimates():
            unfinished = unfinished[:1]
        for index, simulation in enumerate(unfinished):
            left = max(0.0, until - time.thread_time())
            simulation.advance(left / (len(unfinished) - index))

    @property
    def texts(self) -> int:
        """The smallest number of texts of any simulation; 0 if a simulation has not begun."""
        counts = [each.count for each in self.estimates().values()]
        return min(counts) if len(counts) == len(self.simulations) and counts else 0

    def estimates(self) -> dict[str, Estimate]:
        """Return the latest estimates by name; empty before the first batch."""
        known = ((name, each.estimates) for name, each in self.simulations.items())
        return {name: estimates[-1] for name, estimates in known if estimates}


def session_group(
    name: str,
    settings: Hashable,
    simulators: Callable[[], Mapping[str, TextSimulator]],
    narrow: float = NARROW,
) -> SimulationGroup:
    """Return the session's group called ``name``; start a new one if the settings have changed."""
    kept = st.session_state.setdefault(_KEY, {})
    known = kept.get(name)
    if not isinstance(known, SimulationGroup) or known.settings != settings:
        known = kept[name] = SimulationGroup(settings, simulators(), narrow)
    return known


def simulate_and_draw(group: SimulationGroup, paused: bool, draw: Callable[[], None]) -> None:
    """Twice a second, simulate a batch and call ``draw``, until all simulations are done."""

    def advance() -> bool:
        """Run a batch; return whether another batch follows."""
        if not (paused or group.done):
            group.advance()
        return not (paused or group.done)

    redraw_while_busy(advance(), advance, bool, lambda _: draw(), seconds=_TICK)


def progress_sentence(group: SimulationGroup, paused: bool) -> str:
    """Return how many texts were simulated, and when or why the simulation stops."""
    texts = f"{group.texts:,} texts"
    if group.done and group.widest <= group.narrow:
        return (
            f"{texts}. The simulation stopped because the 95 % interval is within "
            f"± {PERCENT.shown(group.narrow)}."
        )
    if group.done:
        return (
            f"{texts}. The simulation stopped at this limit. The 95 % interval is still "
            f"± {PERCENT.shown(group.widest)}."
        )
    if paused:
        return f"Paused after {texts}."
    return (
        f"{texts} so far. The simulation stops at a 95 % interval of "
        f"± {PERCENT.shown(group.narrow)}."
    )
