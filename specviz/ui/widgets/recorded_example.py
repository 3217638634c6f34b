"""The caption of a recorded result, which a page shows until the user has a new result."""

from __future__ import annotations

import streamlit as st

from specviz.ui.widgets.plain_text import as_text


def prompt_sentence(prompt: str) -> str:
    return f"The prompt is “{as_text(' '.join(prompt.split()))}”"


def show_example_caption(press: str, about: str) -> None:
    """Draw the caption of a recorded result.

    Args:
        press: The label of the button that makes a new result.
        about: Sentences on what was measured.
    """
    st.caption(
        f"**Recorded example** from another machine; press *{press}* for a result of your own. "
        f"{about}"
    )
