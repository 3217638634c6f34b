"""On the Lossless page: does a running engine accept as many candidates as specviz's loop?"""

from __future__ import annotations

from functools import partial

import streamlit as st

from specviz.errors import SpecvizError
from specviz.record.numbers import TOKENS
from specviz.record.pairs import PairSpec
from specviz.record.server_run import ServerInfo
from specviz.record.trace import RunConfig
from specviz.servers.address import SERVER_KEY
from specviz.tune.parity_values import ConditionResult, ParityReport, parity_verdict
from specviz.ui.lossless.charts import PositionCurve, positions_chart
from specviz.ui.lossless.current import parity_of, parity_plan, start_parity
from specviz.ui.lossless.head_doctor import show_findings
from specviz.ui.servers.places import choose_place, offer_probe
from specviz.ui.tune.current import follow
from specviz.ui.widgets.page_parts import show_chart
from specviz.ui.widgets.plain_text import as_text, show_error


def show_engine_parity(spec: PairSpec, config: RunConfig) -> None:
    """Draw a box for an engine's address, the button Compare, and the latest comparison."""
    job = parity_of(spec)
    with st.container(border=True, key="engine_parity", gap="small"):
        st.markdown("#### Acceptance of a running engine")
        st.caption(
            "An engine that serves this target with this head should accept as many candidates as "
            "specviz's own loop along the same texts. The engine's counters show at which "
            "positions of the round the engine accepts fewer candidates."
        )
        place = choose_place(
            "Engine", "parity_engine", SERVER_KEY, what="Prompts go",
            hint="A server of vLLM or llama.cpp with this target and head. Nobody else may use the "
            "server during the comparison.",
        )  # fmt: skip
        if place is not None and place.error is not None:
            show_error(place.error)
        elif place is not None and place.waiting:
            offer_probe(place)
        elif place is not None and place.info is not None:
            st.caption(as_text(f"Compare sends {parity_plan(config).words(place.address)}."))
            st.button(
                "Compare", key="parity_start", on_click=_start, type="primary",
                args=(spec, config, place.info, place.granted),
                disabled=job is not None and job.going,
            )  # fmt: skip
        if problem := st.session_state.pop("parity_problem", None):
            show_error(problem)
        if job is not None:
            follow(job, partial(show_findings, job, _show_report))


def _start(spec: PairSpec, config: RunConfig, info: ServerInfo, granted: bool) -> None:
    try:
        start_parity(spec, config, info, granted=granted)
    except SpecvizError as problem:
        st.session_state["parity_problem"] = problem


def _show_report(report: ParityReport) -> None:
    badge = ":red-badge[✕]" if report.findings else ":green-badge[✓]"
    st.markdown(f"##### {badge} {as_text(parity_verdict(report))}")
    for each in (*(each.sentence for each in report.findings), *report.notes):
        st.markdown(as_text(each))
    curves = [
        PositionCurve(
            label="reference", shares=tuple(each.given.reference for each in report.positions)
        ),
        PositionCurve(label="engine", shares=tuple(each.given.engine for each in report.positions)),
    ]
    show_chart(
        positions_chart(curves),
        f"Acceptance at each position, given that the candidates before it were accepted. "
        f"The engine ({as_text(report.title)}) and specviz's loop (the reference) used the same "
        f"{report.num_prompts} texts at temperature 0.",
        "measured", key="parity_positions", alt="Acceptance by position: engine and reference",
    )  # fmt: skip
    st.dataframe([_row(each) for each in report.conditions], hide_index=True)
    st.caption(
        f"In {report.same_text} of {report.num_prompts} texts, every token of the engine is also "
        f"the choice of specviz's target. The intervals of the differences are corrected for "
        f"{report.num_comparisons} comparisons."
    )


def _row(result: ConditionResult) -> dict[str, str]:
    return {
        "condition": result.words,
        "engine, tokens per round": TOKENS.shown(result.engine.tau),
        "reference": TOKENS.shown(result.reference.tau),
        "difference": result.interval_words,
    }
