"""The player as a Streamlit component, built from the files under ``assets/player``.

``show_player`` sends data to the browser; ``player_state`` returns the browser's requests.
"""

from __future__ import annotations

from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from specviz.player.player_source import player_source
from specviz.ui.session.sent_rounds import RoundRequest

_SCRIPT, _STYLE = player_source()
_mount = component("specviz_player", js=_SCRIPT, css=_STYLE, isolate_styles=False)


def show_player(data: dict[str, Any], *, key: str) -> None:
    """Show the player. ``assets/player/payload.d.ts`` declares ``data``."""
    _mount(
        key=key, data=data, on_wish_change=_no_callback, on_fork_change=_no_callback,
        on_moment_change=_no_callback,
    )  # fmt: skip


def player_state(key: str, name: str) -> object:
    """Return the last value that the browser sent under ``name``; None if it has sent none."""
    state = st.session_state.get(key) or {}
    return state.get(name)


def requested_rounds(key: str) -> RoundRequest:
    """Return the rounds that the player last requested."""
    state: Any = player_state(key, "wish")
    return RoundRequest(**(state or {}))


def _no_callback() -> None:
    """Do nothing: Streamlit returns a state value only if a callback is registered for it."""
