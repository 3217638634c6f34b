"""The finding as settings for other engines."""

from __future__ import annotations

import streamlit as st

from specviz.errors import SpecvizError
from specviz.tune.answer import Answer, Candidate
from specviz.tune.engine_settings import (
    AcceptanceRule,
    EngineSettings,
    Finding,
    engine_settings,
)
from specviz.tune.surface import Cell
from specviz.ui.widgets.plain_text import as_text, show_error


def show_engines(answer: Answer) -> None:
    if answer.best is None:
        st.caption("As soon as there is advice, its settings stand here.")
        return
    candidate, cell = answer.best
    try:
        found = _settings(candidate, cell)
    except SpecvizError as problem:
        show_error(problem)
        return
    st.caption(
        "The finding as settings to paste. Engines do not all accept by the same rule, so the "
        "tokens a round to expect are worked out again by each engine's own."
    )
    engine = st.segmented_control(
        "Engine", [each.engine for each in found], default=found[0].engine, key="tune_engine",
        label_visibility="collapsed", required=True,
    )  # fmt: skip
    settings = next(each for each in found if each.engine == engine)
    for snippet in settings.snippets:
        st.markdown(f"**{as_text(snippet.label)}**" + _tau_words(snippet.tau))
        st.code(snippet.text, language=snippet.language, wrap_lines=True)
    for note in settings.notes:
        st.caption(f"▲ {as_text(note)}")
    named = as_text(f"{settings.engine} {settings.version}")
    st.caption(f"Names as in the sources of {named}.")


def _settings(candidate: Candidate, cell: Cell) -> list[EngineSettings]:
    """Each engine's with the γ that is best by its own rule."""
    matching = candidate.matching.best_at(cell.temperature) or cell
    own = engine_settings(finding_of(candidate, cell))
    others = engine_settings(finding_of(candidate, matching))
    return [
        other if any(each.rule == "match" for each in other.snippets) else first
        for first, other in zip(own, others, strict=True)
    ]


def _tau_words(tau: float | None) -> str:
    return "" if tau is None else f" · {tau:.2f} tokens a round expected by its rule"


def finding_of(candidate: Candidate, cell: Cell) -> Finding:
    """Under both rules at the cell's γ; names as the pair was asked for."""
    spec = candidate.lane.spec
    target = spec.target_place
    draft = spec.draft or (target.removesuffix("target") + "draft" if spec.embedded else None)
    config, method = candidate.lane.config, candidate.lane.config.draft_method
    rates: dict[AcceptanceRule, tuple[float, ...]] = {}
    if method.needs_draft:
        rates["lossless"] = candidate.cumulative(cell)
        rates["match"] = candidate.cumulative(cell, matching=True)
    return Finding(
        target=target,
        draft=draft if method.needs_draft else None,
        drafter=config.drafter,
        gamma=cell.gamma,
        temperature=cell.temperature,
        top_k=config.top_k,
        top_p=config.top_p,
        tau=cell.tau,
        cumulative={rule: each for rule, each in rates.items() if each},
    )
