"""The finding as settings for other engines."""

from __future__ import annotations

import streamlit as st

from specviz.errors import SpecvizError
from specviz.tune.answer import Answer
from specviz.tune.engine_finding import settings_for
from specviz.ui.widgets.plain_text import as_text, show_error


def show_engines(answer: Answer) -> None:
    if answer.best is None:
        st.caption("As soon as there is advice, its settings stand here.")
        return
    if answer.best_plain is None:
        st.caption(
            "No candidate is a chain of a draft model, or of prompt lookup, judged token by token, "
            "as these engines run it."
        )
        return
    candidate, cell = answer.best_plain
    if answer.best_plain != answer.best:
        st.caption(
            f"{as_text(answer.best[0].label)} is ranked first, which these engines do not run as "
            f"it was judged; this is {as_text(candidate.label)}."
        )
    try:
        found = settings_for(candidate, cell)
    except SpecvizError as problem:
        show_error(problem)
        return
    st.caption(
        "The finding as settings to paste. Engines do not all accept by the same rule, so the "
        "tokens a round to expect are worked out again by each engine's own."
    )
    engine = st.segmented_control(
        "Engine", [each.engine for each in found], default=found[0].engine, key="tune_engine",
        label_visibility="collapsed", required=True, format_func=as_text,
    )  # fmt: skip
    settings = next(each for each in found if each.engine == engine)
    for snippet in settings.snippets:
        st.markdown(f"**{as_text(snippet.label)}**" + _tau_words(snippet.tau))
        st.code(snippet.text, language=snippet.language, wrap_lines=True)
    for note in settings.notes:
        st.caption(f"▲ {as_text(note)}")
    named = as_text(f"{settings.engine} {settings.version}")
    st.caption(f"Names as in the sources of {named}.")


def _tau_words(tau: float | None) -> str:
    return "" if tau is None else f" · {tau:.2f} tokens a round expected by its rule"
