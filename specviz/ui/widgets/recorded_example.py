"""The caption of a recorded result, which a page shows before the first one of the user."""

from __future__ import annotations

import streamlit as st


def show_example_caption(press: str, about: str) -> None:
    """State that a result is recorded, what to press for an own one, and what was measured."""
    st.caption(
        f"**Recorded example** from another machine; press *{press}* for a result of your own. "
        f"{about}"
    )
