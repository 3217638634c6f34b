"""The board that draws an engine's counters: a Streamlit component from ``assets/counters``."""

from __future__ import annotations

from typing import Any

import streamlit as st

from specviz.ui.session.sent_rounds import RoundRequest
from specviz.ui.widgets.asset_component import asset_component

_mount = asset_component("counters")


def show_board(data: dict[str, Any], *, key: str) -> None:
    _mount(key=key, data=data, on_wish_change=_nothing_to_do)


def board_event(key: str) -> RoundRequest:
    """Return the board's request for points that it has not received."""
    state: Any = st.session_state.get(key) or {}
    return RoundRequest(**(state.get("wish") or {}))


def _nothing_to_do() -> None:
    """Do nothing. Streamlit returns the value of a state only if the state has a callback."""
