"""The player as a Streamlit component, made of the files under ``assets/player``.

``show_player`` sends data to the browser; ``player_state`` is what the browser has asked for.
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
    _mount(
        key=key, data=data, on_wish_change=_nothing_to_do, on_fork_change=_nothing_to_do,
        on_moment_change=_nothing_to_do,
    )  # fmt: skip


def player_state(key: str, name: str) -> object:
    """What the browser last said under a name."""
    said = st.session_state.get(key) or {}
    return said.get(name)


def player_event(key: str) -> Wish:
    """From which round on it wants them again."""
    said: Any = player_state(key, "wish")
    return Wish(**(said or {}))


def _nothing_to_do() -> None:
    """Streamlit returns a state value only if it has a callback."""
