"""Runs that test a claim on the pair: which they are, and their state on the server.

They go on when the page is left, and every tab sees their results. Where a claim is about time, the
target alone is timed too, and the run also shows on Watch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import streamlit as st

from specviz.errors import SpecvizError
from specviz.measure.background_job import RunsJob
from specviz.measure.run_makers import RunOrder
from specviz.record.pairs import PairSpec
from specviz.record.prompts import Preset, read_presets
from specviz.record.trace import RunConfig, Trace
from specviz.theory.claims import RunName
from specviz.ui.session.background_jobs import CLAIMS, run_maker, the_job_queue
from specviz.ui.session.history import History
from specviz.ui.theory.claims.evidence import GUIDE_TOKENS, Evidence, evidence_of

EPSILONS = (0.02, 0.1, 0.3)
_TEMPERATURES = (0.0, 0.3, 0.7, 1.0, 1.5)
_WATCHED = ("speed", "estimates", "verification")

_TIMED = RunConfig(gamma=5, temperature=0.7, max_new_tokens=128)
_COUNTED = RunConfig(gamma=5, temperature=1.0, max_new_tokens=192, ignore_eos=True, record=False)
_NUMS_DRAFTS = (1, 2, 4)
_LOSSY = replace(_COUNTED, rule="over-accept", record=True)  # bias is part of the record


class ClaimRuns:
    """The server's runs for claims: which are under way, their evidence, why they broke off.

    Any thread may ask: a value is never half written.
    """

    def __init__(self) -> None:
        self._works: dict[RunName, RunsJob] = {}  # the last ones
        self._askers: dict[RunName, str] = {}
        self._evidence: dict[RunName, Evidence] = {}

    def start(self, run: RunName, asked_by: str, spec: PairSpec, history: History) -> None:
        """Put the runs in line behind other work; ``history`` gets those that Watch can show."""
        if self.going(run) is not None:
            return
        self._evidence.pop(run, None)
        work = RunsJob(
            plans(run, spec),
            run_maker(history.add if run in _WATCHED else None),
            name=CLAIMS,
            label=f"Runs for a claim: {run}",
            conclude=partial(self._conclude, run),
        )
        self._works[run], self._askers[run] = work, asked_by
        the_job_queue().start(work)

    def going(self, run: RunName) -> RunsJob | None:
        """The runs while they are under way or wait for their turn, else None."""
        work = self._works.get(run)
        return work if work is not None and work.going else None

    def asker(self, run: RunName) -> str | None:
        """Which part of the page started them last."""
        return self._askers.get(run)

    @property
    def asking(self) -> frozenset[str]:
        """The parts of the page whose runs are under way or wait for their turn."""
        return frozenset(self._askers[run] for run, work in self._works.items() if work.going)

    def evidence(self, run: RunName) -> Evidence | None:
        return self._evidence.get(run)

    def failure(self, run: RunName) -> SpecvizError | None:
        work = self._works.get(run)
        if work is None or work.state not in {"failed", "stopped"}:
            return None
        return work.error or SpecvizError(
            "These runs were stopped before they had finished.", remedy="Run them again."
        )

    def _conclude(self, run: RunName, traces: tuple[Trace, ...]) -> None:
        self._evidence[run] = evidence_of(run, traces)


@st.cache_resource(show_spinner=False)
def the_claim_runs() -> ClaimRuns:
    return ClaimRuns()


# Which runs


def plans(run: RunName, spec: PairSpec) -> tuple[RunOrder, ...]:
    """In the order in which `evidence_of` expects their traces."""
    return tuple(
        RunOrder(
            label=f"{each.preset.kind}, {each.label}" if each.label else each.preset.kind,
            spec=spec,
            prompt=each.preset.text,
            config=replace(each.config, seed=seed),  # with one seed all would draw the same numbers
            baseline=each.timed or run in _WATCHED,
        )
        for seed, each in enumerate(plans_of(run))
    )


def plans_of(run: RunName) -> list[_Plan]:
    """Prompts, labels and settings of the runs, which do not depend on the pair."""
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
    """The first text is timed at both temperatures, and runs once more before all: a cold call."""
    config = replace(_COUNTED, gamma=10, max_new_tokens=GUIDE_TOKENS, ignore_eos=False)
    made = [
        _Plan(preset, f"T {heat:g}", replace(config, temperature=heat), timed=place == 0)
        for heat in (0.0, 1.0)
        for place, preset in enumerate(presets["dialogue"][:5])
    ]
    return [made[0]._replace(timed=False), *made]


def _many_lossless(presets: _Presets) -> list[_Plan]:
    return [_Plan(preset, "", _COUNTED) for preset in presets["story"] * 2]


def _several_drafts(presets: _Presets) -> list[_Plan]:
    return [
        _Plan(preset, f"M {num}", replace(_COUNTED, num_drafts=num))
        for num in _NUMS_DRAFTS
        for preset in presets["story"][:4]
    ]


def _whole_blocks(presets: _Presets) -> list[_Plan]:
    return [_Plan(preset, "", replace(_COUNTED, rule="block")) for preset in presets["story"]]


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
    "drafts": _several_drafts,
    "blocks": _whole_blocks,
}
