"""Estimate from log-probabilities the gain of a draft that the server does not run."""

from __future__ import annotations

from functools import partial

import streamlit as st

from specviz.comparison.plan import Lane
from specviz.errors import ConfigError, SpecvizError
from specviz.figures.symbols import SYMBOLS
from specviz.record.pairs import PairSpec, is_address
from specviz.record.prompts import SuiteItem
from specviz.record.trace import RunConfig, StepCosts
from specviz.servers.address import DRAFT_KEY, checked_address
from specviz.servers.endpoint_maker import EndpointMaker
from specviz.tune.given_costs import given_costs
from specviz.tune.question import TEMPERATURES, Question
from specviz.tune.tune_job import TuneJob
from specviz.ui.servers.charts import tau_over_gamma
from specviz.ui.servers.controls import Choices
from specviz.ui.servers.places import is_granted, show_withheld_key
from specviz.ui.session.background_jobs import run_maker, the_job_queue
from specviz.ui.session.presses import press_button, take_press
from specviz.ui.tune.current import follow
from specviz.ui.tune.surface_section import show_advice, show_surface
from specviz.ui.tune.text_section import show_text
from specviz.ui.widgets.page_parts import show_chart
from specviz.ui.widgets.plain_text import as_text, show_error
from specviz.values import Value

_JOB, _SHOWN = "servers-draft", "draft work shown"
_LINKED = "query-params"


class _DraftRequest(Value):
    """The draft to estimate.

    ``granted``: whether texts may be sent to the draft's address. ``costs``: the step costs for the
    speedups; None if the user gave no costs.
    """

    draft: str
    granted: bool
    costs: StepCosts | None


def show_draft(choices: Choices) -> None:
    """Draw the controls for another draft, and the progress and results of its estimate.

    Args:
        choices: The values of the page's controls. The server must already be identified.
    """
    st.markdown("#### Another draft for this engine")
    server = choices.server
    assert server is not None
    assert server.info is not None
    if not server.info.capabilities.prompt_laws:
        st.caption(
            "This needs the log-probabilities of a text that is sent to the engine. This engine "
            "does not report them; vLLM and SGLang do."
        )
        return
    st.caption(
        "The server's model writes a text. The log-probabilities of this text under both models "
        "give the expected acceptance of the draft. To see speedups, give the step costs."
    )
    try:
        request = _choose()
        if take_press("server_score"):
            _start(choices, request)
    except SpecvizError as problem:
        show_error(problem)
    job = the_job_queue().find(st.session_state.get(_SHOWN))
    if isinstance(job, TuneJob):
        follow(job, partial(_show_head, job))
        if not job.going:
            _show_found(job)


def _choose() -> _DraftRequest:
    with st.container(horizontal=True, vertical_alignment="bottom", key="server_draft_boxes"):
        typed = st.text_input(
            "Draft: an address, a folder or a Hub id", key="server_draft", bind=_LINKED,
            placeholder="http://127.0.0.1:8001",
        )  # fmt: skip
        costs = _choose_costs()
        press_button("Score it", key="server_score", disabled=not (typed and typed.strip()))
    draft = (typed or "").strip()
    granted = True
    if is_address(draft):
        draft = checked_address(draft, allow_remote=True)
        granted = is_granted(draft, "server_draft", "Texts go")
        st.caption(
            f"The API key for this address comes from the environment variable `{DRAFT_KEY}`. It "
            f"is sent only to the addresses in `{DRAFT_KEY}_FOR`."
        )
        show_withheld_key(DRAFT_KEY, draft)
    return _DraftRequest(draft=draft, granted=granted, costs=costs)


def _choose_costs() -> StepCosts | None:
    given = st.toggle(
        "Costs", key="server_costs", bind=_LINKED,
        help=f"c: {SYMBOLS['c'].sentence} v: {SYMBOLS['v'].sentence} Without these costs, the page "
        "shows no speedups.",
    )  # fmt: skip
    if not given:
        return None
    c = st.number_input(
        "Draft cost, c", 0.0, 10.0, 0.05, 0.01, format="%.3f", key="server_c", bind=_LINKED,
        width=160,
    )  # fmt: skip
    v = st.number_input(
        "Verification cost, v", 0.1, 50.0, 1.1, 0.05, format="%.2f", key="server_v", bind=_LINKED,
        width=160,
    )  # fmt: skip
    return given_costs(c, v)


def _start(choices: Choices, request: _DraftRequest) -> None:
    server, settings = choices.server, choices.settings
    if server is None or not request.draft:
        return
    if not request.granted:
        raise ConfigError(
            "The draft is on another machine.",
            remedy="Tick the box below its address to allow sending texts there.",
        )
    config = RunConfig(
        temperature=settings.temperature, max_new_tokens=settings.max_new_tokens,
        top_k=settings.top_k, top_p=settings.top_p, seed=settings.seed,
        ignore_eos=settings.ignore_eos,
    )  # fmt: skip
    question = Question(
        lanes=(Lane(spec=PairSpec(target=server.address, draft=request.draft), config=config),),
        items=(SuiteItem(prompt=choices.prompt),),
        temperatures=tuple(sorted({*TEMPERATURES, config.temperature})),
    )
    maker = EndpointMaker(run_maker(), allow_remote=server.granted)
    job = TuneJob(question, maker, given=request.costs, wants_costs=False, name=_JOB)
    the_job_queue().start(job)
    st.session_state[_SHOWN] = job.id


def _show_head(job: TuneJob) -> None:
    if job.given is not None:
        show_advice(job)


def _show_found(job: TuneJob) -> None:
    answer = job.answer
    if not answer.candidates:
        return
    warnings = [
        f"At temperature {each.sampling.temperature:g}: {as_text(each.doubt)}"
        for each in answer.candidates[0].texts
        if each.doubt
    ]
    if warnings:
        st.warning("  \n".join(warnings))
    if job.given is not None:
        show_surface(answer, given=True)
    elif answer.candidates[0].surface.cells:
        show_chart(
            tau_over_gamma(answer.candidates[0].surface),
            "The curves show expected tokens per round along the target's own text. Give costs to "
            "see speedups.",
            "exact", key="server_taus", alt="Expected tokens per round at each γ and temperature",
        )  # fmt: skip
    show_text(answer)
