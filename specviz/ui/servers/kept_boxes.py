"""Boxes of this page that come back as they were when it is left and opened again.

Streamlit forgets the widgets of a page that is left, and what they had put into the link.
"""

from __future__ import annotations

import streamlit as st

_KEPT = "server boxes kept"


def box(key: str) -> str:
    """The key of a widget, which starts with what it said before, unless the link says more."""
    kept = _kept()
    if key in kept and key not in st.session_state and key not in st.query_params:
        st.session_state[key] = kept[key]
    return key


def keep_boxes(*keys: str) -> None:
    """Remember what they say, once they are drawn."""
    _kept().update({key: st.session_state[key] for key in keys if key in st.session_state})


def _kept() -> dict[str, object]:
    return st.session_state.setdefault(_KEPT, {})
