"""The note that a page shows recorded runs, and what is needed to make new runs."""

from __future__ import annotations

import streamlit as st

from specviz.access.demo import is_demo
from specviz.access.roles import Action
from specviz.ui.watch.first_stage import DEMO_WORDS
from specviz.ui.widgets.plain_text import as_text


def show_note(needed: Action) -> None:
    """Draw the note. ``needed`` is the action that the person may not do on this page."""
    with st.container(key="recorded_note"):
        st.markdown(_demo_words() if is_demo() else _role_words(needed))


def _demo_words() -> str:
    return f":orange-badge[demo] {DEMO_WORDS}"


def _role_words(needed: Action) -> str:
    who = "students and owners" if needed is Action.RUN else "owners"
    return (
        f":orange-badge[recorded] This page shows recorded runs: on this dashboard, only {who} may "
        f"{as_text(needed.value)}."
    )
