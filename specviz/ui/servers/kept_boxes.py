"""Keep the values of this page's widgets when the user leaves it and returns.

Streamlit forgets the widgets of a page that is left, and their query parameters.
"""

from __future__ import annotations

import streamlit as st

_KEPT = "server boxes kept"


def box(key: str) -> str:
    """Return a widget's key after restoring its earlier value, unless the link has one."""
    kept = _kept()
    if key in kept and key not in st.session_state and key not in st.query_params:
        st.session_state[key] = kept[key]
    return key


def keep_boxes(*keys: str) -> None:
    """Store the values of widgets that have been drawn."""
    _kept().update({key: st.session_state[key] for key in keys if key in st.session_state})


def _kept() -> dict[str, object]:
    return st.session_state.setdefault(_KEPT, {})
