"""Tune's best setting, written as settings of other engines."""

from __future__ import annotations

import streamlit as st

from specviz import ROOT
from specviz.access.roles import Action
from specviz.errors import SpecvizError
from specviz.tune.answer import Answer
from specviz.tune.engine_finding import settings_for
from specviz.ui.session.person import the_person
from specviz.ui.widgets.plain_text import as_text, show_error


def show_engines(answer: Answer) -> None:
    if answer.best is None:
        st.caption("No advice yet, so there are no settings.")
        return
    if answer.best_plain is None:
        st.caption(
            "Other engines support only one sequence of drafted tokens per round, from a draft "
            "model or from prompt lookup, with token-by-token verification. None of the "
            "ranked drafts and methods works this way."
        )
        return
    candidate, cell = answer.best_plain
    if answer.best_plain != answer.best:
        st.caption(
            f"{as_text(answer.best[0].label)} is ranked first, but these engines do not support "
            f"it. The settings below are for {as_text(candidate.label)}."
        )
    try:
        found = settings_for(candidate, cell)
    except SpecvizError as problem:
        show_error(problem)
        return
    st.caption(
        "Paste these settings. Engines differ in their acceptance rules, so the expected tokens "
        "per round are computed with the rule of the chosen engine."
    )
    engine = st.segmented_control(
        "Engine", [each.engine for each in found], default=found[0].engine, key="tune_engine",
        label_visibility="collapsed", required=True, format_func=as_text,
    )  # fmt: skip
    settings = next(each for each in found if each.engine == engine)
    for snippet in settings.snippets:
        st.markdown(f"**{as_text(snippet.label)}**" + _tau_text(snippet.tau))
        st.code(_without_place(snippet.text), language=snippet.language, wrap_lines=True)
    for note in settings.notes:
        st.caption(f"▲ {as_text(note)}")
    named = as_text(f"{settings.engine} {settings.version}")
    st.caption(f"Option names are from the source code of {named}.")


def _without_place(text: str) -> str:
    """Return the settings, with relative paths if the person must not see specviz's folder."""
    return text if the_person().may(Action.MEASURE) else text.replace(f"{ROOT}/", "")


def _tau_text(tau: float | None) -> str:
    return "" if tau is None else f" · {tau:.2f} tokens per round expected"
