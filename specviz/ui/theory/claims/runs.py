"""Runs that test a claim on the pair: their plans, and their state on the server.

The runs continue when the user leaves the page, and every browser tab sees the results. Runs of the
tests in ``_WATCHED`` are timed against the target alone, and they also appear on Watch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import streamlit as st

from specviz.access.roles import Action
from specviz.errors import ConfigError, SpecvizError
from specviz.measure.background_job import RunsJob
from specviz.measure.run_makers import RunOrder
from specviz.record.drafters import methods_for
from specviz.record.pairs import PairSpec
from specviz.record.prompts import Preset, read_presets
from specviz.record.run_config import ResidualName
from specviz.record.trace import RunConfig, Trace
from specviz.theory.claims import RunName
from specviz.ui.session.background_jobs import CLAIMS, run_maker, the_job_queue
from specviz.ui.session.history import History
from specviz.ui.session.person import require
from specviz.ui.theory.claims.evidence import GUIDE_TOKENS, Evidence, evidence_of

EPSILONS = (0.02, 0.1, 0.3)
_TEMPERATURES = (0.0, 0.3, 0.7, 1.0, 1.5)
_WATCHED = ("speed", "estimates", "verification")
_REFUSED = "refused claim"  # session state: a _Refusal

_TIMED = RunConfig(gamma=5, temperature=0.7, max_new_tokens=128)
_COUNTED = RunConfig(gamma=5, temperature=1.0, max_new_tokens=192, ignore_eos=True, record=False)
_NUMS_DRAFTS = (1, 2, 4)
_RESIDUALS: tuple[ResidualName, ...] = ("leftover", "target")
_LOSSY = replace(_COUNTED, rule="over-accept", record=True)  # the bias needs the record


class ClaimRuns:
    """The test runs for claims on this server. A ``RunName`` names all the runs of one test.

    Each test has a job while it runs, then evidence or a failure. These values are replaced, never
    changed, so they are safe to read from any thread.
    """

    def __init__(self) -> None:
        self._jobs: dict[RunName, RunsJob] = {}  # the last job per name
        self._starters: dict[RunName, str] = {}
        self._evidence: dict[RunName, Evidence] = {}

    def start(self, run: RunName, starter: str, spec: PairSpec, history: History) -> None:
        """Queue the runs. Runs that also appear on Watch are added to ``history``.

        Raises:
            ConfigError: If the pair cannot make the runs.
            AccessError: If the current person may not start them.
        """
        if self.going(run) is not None:
            return
        require(Action.MEASURE)
        orders = plans(run, spec)
        self._evidence.pop(run, None)
        job = RunsJob(
            orders,
            run_maker(history.add if run in _WATCHED else None),
            name=CLAIMS,
            label=f"Runs for a claim: {run}",
            conclude=partial(self._conclude, run),
        )
        self._jobs[run], self._starters[run] = job, starter
        the_job_queue().start(job)

    def going(self, run: RunName) -> RunsJob | None:
        """Return the job while it is running or queued, else None."""
        job = self._jobs.get(run)
        return job if job is not None and job.going else None

    def started_by(self, run: RunName) -> str | None:
        """Return the id of the card whose button started these runs last."""
        return self._starters.get(run)

    @property
    def busy_cards(self) -> frozenset[str]:
        """Ids of the cards whose runs are running or queued."""
        return frozenset(self._starters[run] for run, job in self._jobs.items() if job.going)

    def evidence(self, run: RunName) -> Evidence | None:
        return self._evidence.get(run)

    def failure(self, run: RunName) -> SpecvizError | None:
        job = self._jobs.get(run)
        if job is None or job.state not in {"failed", "stopped"}:
            return None
        return job.error or SpecvizError(
            "These runs were stopped before they finished.", remedy="Run them again."
        )

    def _conclude(self, run: RunName, traces: tuple[Trace, ...]) -> None:
        self._evidence[run] = evidence_of(run, traces)


@st.cache_resource(show_spinner=False)
def the_claim_runs() -> ClaimRuns:
    return ClaimRuns()


class _Refusal(NamedTuple):
    """The error that a card's button raised, and the session's pair at that time."""

    card: str
    pair: PairSpec
    error: SpecvizError


def start_or_refuse(
    runs: ClaimRuns, run: RunName, card: str, spec: PairSpec, history: History
) -> None:
    """Queue the runs; if the pair cannot make them, store the error for the claim's card."""
    st.session_state.pop(_REFUSED, None)
    try:
        runs.start(run, card, spec, history)
    except SpecvizError as error:
        st.session_state[_REFUSED] = _Refusal(card, spec, error)


def refusal_on(card: str) -> SpecvizError | None:
    """Return the error that the card's button raised in this session; None if there is none."""
    refused: _Refusal | None = st.session_state.get(_REFUSED)
    return refused.error if refused is not None and refused.card == card else None


def forget_other_pairs(spec: PairSpec) -> None:
    """Delete the stored error if it concerns a pair other than ``spec``."""
    refused: _Refusal | None = st.session_state.get(_REFUSED)
    if refused is not None and refused.pair != spec:
        del st.session_state[_REFUSED]


# Plans


def plans(run: RunName, spec: PairSpec) -> tuple[RunOrder, ...]:
    """Plan a test's runs on this pair, in the order in which `evidence_of` expects the traces.

    If the pair has no draft model, the runs draft with a method that needs no draft model.

    Raises:
        ConfigError: The runs draft several chains in a round, which needs a draft model.
    """
    planned = plans_of(run)
    if not spec.has_draft and any(each.config.num_drafts > 1 for each in planned):
        raise ConfigError(
            "This test drafts several chains in a round, which needs a draft model.",
            remedy="On the page Watch, under “The pair”, load a pair with a draft model.",
        )
    drafter = {} if spec.has_draft else {"drafter": methods_for(spec.draft_kind)[0]}
    return tuple(
        RunOrder(
            label=f"{each.preset.kind}, {each.label}" if each.label else each.preset.kind,
            spec=spec,
            prompt=each.preset.text,
            # With equal seeds, two runs on the same prompt would draw the same tokens.
            config=replace(each.config, seed=seed, **drafter),
            baseline=each.timed or run in _WATCHED,
        )
        for seed, each in enumerate(planned)
    )


def plans_of(run: RunName) -> list[_Plan]:
    """Return the prompt, label and settings of every run of a test.

    They do not depend on the pair.
    """
    presets: _Presets = {}
    for preset in read_presets():
        presets.setdefault(preset.kind, []).append(preset)
    return _PLANNED[run](presets)


class _Plan(NamedTuple):
    preset: Preset
    label: str
    config: RunConfig
    timed: bool = False  # also time the target alone


_Presets = dict[str, list[Preset]]


def _combinations(configs: Mapping[str, RunConfig], presets: Sequence[Preset]) -> list[_Plan]:
    """Plan a run for every combination of setting and preset; ``configs`` is keyed by label."""
    return [_Plan(preset, label, config) for label, config in configs.items() for preset in presets]


def _one_story(presets: _Presets) -> list[_Plan]:
    return [_Plan(presets["story"][0], "", _TIMED)]


def _by_temperature(presets: _Presets) -> list[_Plan]:
    heats = {f"T {heat:g}": replace(_COUNTED, temperature=heat) for heat in _TEMPERATURES}
    return _combinations(heats, presets["story"][:2])


def _by_kind(presets: _Presets) -> list[_Plan]:
    config = replace(_TIMED, record=False)
    return [_Plan(preset, "", config) for each in presets.values() for preset in each[:2]]


def _guide_listing(presets: _Presets) -> list[_Plan]:
    """Plan the benchmark of the "Practical guide", a source of claims: 5 prompts, 2 temperatures.

    The first run is a cold start; the second run repeats it. At each temperature, the run on the
    first prompt is timed against the target alone. The other runs, including the cold start, are
    not timed.
    """
    config = replace(_COUNTED, gamma=10, max_new_tokens=GUIDE_TOKENS, ignore_eos=False)
    made = [
        _Plan(preset, f"T {heat:g}", replace(config, temperature=heat), timed=index == 0)
        for heat in (0.0, 1.0)
        for index, preset in enumerate(presets["dialogue"][:5])
    ]
    return [made[0]._replace(timed=False), *made]


def _many_lossless(presets: _Presets) -> list[_Plan]:
    return [_Plan(preset, "", _COUNTED) for preset in presets["story"] * 2]


def _several_drafts(presets: _Presets) -> list[_Plan]:
    drafts = {f"M {num}": replace(_COUNTED, num_drafts=num) for num in _NUMS_DRAFTS}
    return _combinations(drafts, presets["story"][:4])


def _whole_blocks(presets: _Presets) -> list[_Plan]:
    return [_Plan(preset, "", replace(_COUNTED, rule="block")) for preset in presets["story"]]


def _at_epsilon_zero(presets: _Presets) -> list[_Plan]:
    return _combinations(
        {each: replace(_LOSSY, residual=each) for each in _RESIDUALS}, presets["story"]
    )


def _over_accepting(presets: _Presets) -> list[_Plan]:
    configs = {
        f"ε {epsilon:g}, {residual}": replace(_LOSSY, epsilon=epsilon, residual=residual)
        for epsilon in EPSILONS
        for residual in _RESIDUALS
    }
    return _combinations(configs, presets["story"][:3])


_PLANNED: dict[RunName, Callable[[_Presets], list[_Plan]]] = {
    "speed": _one_story,
    "estimates": _one_story,
    "verification": _one_story,
    "temperature": _by_temperature,
    "kinds": _by_kind,
    "benchmark": _guide_listing,
    "rejections": _many_lossless,
    "residual": _at_epsilon_zero,
    "pareto": _over_accepting,
    "drafts": _several_drafts,
    "blocks": _whole_blocks,
}
