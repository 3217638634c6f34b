"""The player as a Streamlit component, made of the files under ``assets/player``.

``show_player`` sends data to the browser; ``player_wish`` is what the browser asks for when rounds
are missing.
"""

from __future__ import annotations

from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from specviz.player.player_source import player_source
from specviz.ui.session.sent_rounds import Wish

_SCRIPT, _STYLE = player_source()
_mount = component("specviz_player", js=_SCRIPT, css=_STYLE, isolate_styles=False)


def show_player(data: dict[str, Any], *, key: str) -> None:
    """Show the player; ``data`` is as ``assets/player/payload.d.ts`` declares."""
    _mount(key=key, data=data, on_wish_change=_nothing_to_do)


def player_wish(key: str) -> Wish:
    """What the browser last asked for."""
    said = st.session_state.get(key) or {}
    return Wish(**(said.get("wish") or {}))


def _nothing_to_do() -> None:
    """Streamlit returns a state value only if it has a callback."""
