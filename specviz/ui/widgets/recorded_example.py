"""The caption of a recorded result, which a page shows until the user has a new result."""

from __future__ import annotations

import streamlit as st

from specviz.access.roles import Action
from specviz.ui.session.person import the_person
from specviz.ui.widgets.plain_text import as_text


def prompt_sentence(prompt: str) -> str:
    return f"The prompt is “{as_text(' '.join(prompt.split()))}”"


def show_example_caption(press: str, about: str, needed: Action = Action.MEASURE) -> None:
    """Draw the caption of a recorded result.

    Args:
        press: The label of the button that makes a new result. The caption names this button only
            to people who may do ``needed``.
        about: Sentences on what was measured.
    """
    may = the_person().may(needed)
    own = f"; press *{press}* for a result of your own" if may else ""
    st.caption(f"**Recorded example** from another machine{own}. {about}")
