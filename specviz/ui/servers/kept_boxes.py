"""Keep the values of the widgets of Servers when the user leaves the page and returns.

When the user leaves a page, Streamlit forgets its widgets and their query parameters.
"""

from __future__ import annotations

import streamlit as st

_KEPT = "server boxes kept"


def box(key: str) -> str:
    """Restore the widget's earlier value, unless the link has a value; return ``key``."""
    kept = _kept()
    if key in kept and key not in st.session_state and key not in st.query_params:
        st.session_state[key] = kept[key]
    return key


def keep_boxes(*keys: str) -> None:
    """Store the values of widgets that have been drawn."""
    _kept().update({key: st.session_state[key] for key in keys if key in st.session_state})


def _kept() -> dict[str, object]:
    return st.session_state.setdefault(_KEPT, {})
