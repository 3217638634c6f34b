"""Runs that test a claim on the loaded pair: which they are, and what they say when over.

Where one run decides, it is one of the session, timed with the target alone beside it, and it
shows on Watch too. Else they are a series, driven by the page's ticks, of which only what it
came to is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import streamlit as st

from specviz.errors import SpecvizError
from specviz.record.pairs import PairSpec
from specviz.record.prompts import Preset, read_presets
from specviz.record.trace import RunConfig, Trace
from specviz.theory.claims import RunName
from specviz.ui.session.history import History
from specviz.ui.session.worker import Tab
from specviz.ui.theory.claims.outcomes import GUIDE_TOKENS, Outcome, outcome
from specviz.ui.widgets.pair_panel import active_spec
from specviz.worker.parent.client import Run, Worker
from specviz.worker.series import Planned, Series, SeriesState

EPSILONS = (0.02, 0.1, 0.3)
_TEMPERATURES = (0.0, 0.3, 0.7, 1.0, 1.5)
_KEY = "claim runs"
_WATCHED = ("speed", "estimates", "verification")

_TIMED = RunConfig(gamma=5, temperature=0.7, max_new_tokens=128)
_COUNTED = RunConfig(gamma=5, temperature=1.0, max_new_tokens=192, ignore_eos=True, record=False)
_LOSSY = replace(_COUNTED, rule="over-accept", record=True)  # bias is part of the record


class Watched:
    """A series of one: a run of the session, timed against the target alone."""

    def __init__(self, run: Run, planned: Sequence[Planned]) -> None:
        self.planned = tuple(planned)
        self.current = run

    @property
    def state(self) -> SeriesState:
        match self.current.state:
            case "done" | "failed" | "stopped" as over:
                return over
            case _:
                return "running"

    @property
    def error(self) -> SpecvizError | None:
        return self.current.error

    @property
    def progress(self) -> tuple[int, int]:
        return int(self.current.finished), 1

    @property
    def traces(self) -> tuple[Trace, ...]:
        return (self.current.trace,) if self.current.trace else ()

    def advance(self) -> None:
        """The worker's queue moves it on."""

    def stop(self) -> None:
        self.current.stop()


def _watched(worker: Worker, tab: Tab, history: History, plan: Planned) -> Run:
    run = worker.submit(tab.id, plan.spec, plan.prompt, plan.config)
    history.add(run)
    return run


@dataclass(slots=True)
class ClaimRuns:
    """The series of this browser session: the one under way, and what the others came to."""

    run: RunName | None = None
    askers: dict[RunName, str] = field(default_factory=dict)  # who asked last
    series: Series | Watched | None = None
    outcomes: dict[RunName, Outcome] = field(default_factory=dict)
    failures: dict[RunName, SpecvizError] = field(default_factory=dict)

    @property
    def asked_by(self) -> str:
        """Who asked for the series under way."""
        return self.askers.get(self.run, "") if self.run else ""

    @property
    def busy(self) -> bool:
        return self.series is not None

    def start(
        self, run: RunName, asked_by: str, worker: Worker, tab: Tab, history: History
    ) -> None:
        self.stop()
        self.outcomes.pop(run, None)
        self.failures.pop(run, None)
        self.run, self.askers[run] = run, asked_by
        planned = plans(run, active_spec(worker.status()))
        if run in _WATCHED:
            self.series = Watched(_watched(worker, tab, history, planned[0]), planned)
        else:
            self.series = Series(worker, tab.series, planned)

    def stop(self) -> None:
        if self.series is not None:
            self.series.stop()
        self.run, self.series = None, None

    def advance(self) -> None:
        """One tick: when the series is over, what it came to is kept."""
        if self.series is None or self.run is None:
            return
        self.series.advance()
        if self.series.state == "running":
            return
        if self.series.state == "done":
            self._conclude(self.run, self.series)
        else:
            self.failures[self.run] = self.series.error or _broken_off()
        self.run, self.series = None, None

    def _conclude(self, run: RunName, series: Series | Watched) -> None:
        try:
            self.outcomes[run] = outcome(run, series.traces)
        except SpecvizError as error:
            self.failures[run] = error


def _broken_off() -> SpecvizError:
    return SpecvizError(
        "This was stopped before its end, as when another run is started in the same tab.",
        remedy="Run it again, and let it finish.",
    )


def session_claim_runs() -> ClaimRuns:
    return st.session_state.setdefault(_KEY, ClaimRuns())


# Which runs


def plans(run: RunName, spec: PairSpec) -> tuple[Planned, ...]:
    """In the order in which `outcome` expects their traces."""
    return tuple(
        Planned(
            label=f"{each.preset.kind}, {each.label}" if each.label else each.preset.kind,
            spec=spec,
            prompt=each.preset.text,
            config=replace(each.config, seed=seed),  # one seed for all would throw the same coins
            baseline=each.timed,
        )
        for seed, each in enumerate(plans_of(run))
    )


def plans_of(run: RunName) -> list[_Plan]:
    """Prompt, label and settings of each, whatever the pair."""
    presets: _Presets = {}
    for preset in read_presets():
        presets.setdefault(preset.kind, []).append(preset)
    return _PLANNED[run](presets)


class _Plan(NamedTuple):
    preset: Preset
    label: str
    config: RunConfig
    timed: bool = False  # against the target alone


_Presets = dict[str, list[Preset]]


def _one(presets: _Presets) -> list[_Plan]:
    return [_Plan(presets["story"][0], "", _TIMED)]


def _by_temperature(presets: _Presets) -> list[_Plan]:
    return [
        _Plan(preset, f"T {heat:g}", replace(_COUNTED, temperature=heat))
        for heat in _TEMPERATURES
        for preset in presets["story"][:2]
    ]


def _by_kind(presets: _Presets) -> list[_Plan]:
    config = replace(_TIMED, record=False)
    return [_Plan(preset, "", config) for each in presets.values() for preset in each[:2]]


def _guide_listing(presets: _Presets) -> list[_Plan]:
    """The first text timed at either temperature, and once more before all, as a first call."""
    config = replace(_COUNTED, gamma=10, max_new_tokens=GUIDE_TOKENS, ignore_eos=False)
    made = [
        _Plan(preset, f"T {heat:g}", replace(config, temperature=heat), timed=place == 0)
        for heat in (0.0, 1.0)
        for place, preset in enumerate(presets["dialogue"][:5])
    ]
    return [made[0]._replace(timed=False), *made]


def _many_lossless(presets: _Presets) -> list[_Plan]:
    return [_Plan(preset, "", _COUNTED) for preset in presets["story"] * 2]


def _at_epsilon_zero(presets: _Presets) -> list[_Plan]:
    config = replace(_LOSSY, epsilon=0.0)
    return [
        _Plan(preset, residual, replace(config, residual=residual))
        for residual in ("leftover", "target")
        for preset in presets["story"]
    ]


def _over_accepting(presets: _Presets) -> list[_Plan]:
    return [
        _Plan(
            preset,
            f"ε {epsilon:g}, {residual}",
            replace(_LOSSY, epsilon=epsilon, residual=residual),
        )
        for epsilon in EPSILONS
        for residual in ("leftover", "target")
        for preset in presets["story"][:3]
    ]


_PLANNED: dict[RunName, Callable[[_Presets], list[_Plan]]] = {
    "speed": _one,
    "estimates": _one,
    "verification": _one,
    "temperature": _by_temperature,
    "kinds": _by_kind,
    "benchmark": _guide_listing,
    "rejections": _many_lossless,
    "residual": _at_epsilon_zero,
    "pareto": _over_accepting,
}
