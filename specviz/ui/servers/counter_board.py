"""The counter board as a component, made of the files under ``assets/counters``."""

from __future__ import annotations

from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from specviz import ASSETS
from specviz.player.script_modules import component_script
from specviz.ui.session.sent_rounds import RoundRequest

_FOLDER = ASSETS / "counters"
_mount = component(
    "specviz_counters",
    js=component_script(ASSETS, "counters/counters.js"),
    css=(_FOLDER / "counters.css").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def show_board(data: dict[str, Any], *, key: str) -> None:
    _mount(key=key, data=data, on_wish_change=_nothing_to_do)


def board_event(key: str) -> RoundRequest:
    """Return the points that the board requests again."""
    state: Any = st.session_state.get(key) or {}
    return RoundRequest(**(state.get("wish") or {}))


def _nothing_to_do() -> None:
    """Do nothing: Streamlit returns a state value only if it has a callback."""
