"""The prompt: a preset by kind, or words of one's own."""

from __future__ import annotations

import streamlit as st

from specviz.presets import read_presets


def choose_prompt() -> str:
    """The preset chosen fills the box; what stands in the box is the prompt."""
    presets = {f"{preset.kind}: {preset.title}": preset.text for preset in read_presets()}
    chosen = st.selectbox("Preset", list(presets), key="preset")
    return st.text_area("Prompt", presets[chosen], key=f"prompt {chosen}", height=140)
