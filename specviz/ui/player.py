"""The player: the files under ``assets/player`` joined into one Streamlit component.

It is registered once, at import. ``show_player`` sends data; ``player_wish`` is what the browser
asked for when something was missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from specviz.ui.feed import Wish

_FOLDER = Path(__file__).parent.parent.parent / "assets" / "player"
_SCRIPTS = (
    "model",
    "dom",
    "summary",
    "text",
    "rounds",
    "transport",
    "clock",
    "lanes",
    "telling",
    "coin",
    "alternatives",
    "verdict",
    "axes",
    "tally",
    "charts",
    "chart_throughput",
    "chart_acceptance",
    "chart_rounds",
    "tour",
    "main",
)
_STYLES = ("player", "summary", "verdict", "charts")


def player_source() -> tuple[str, str]:
    """The player's one module and its style sheet."""
    script = "\n".join(_read(f"{name}.js").removeprefix("// @ts-check\n") for name in _SCRIPTS)
    style = "\n".join(_read(f"{name}.css") for name in _STYLES)
    return script, style


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


_SCRIPT, _STYLE = player_source()
_mount = component("specviz_player", js=_SCRIPT, css=_STYLE, isolate_styles=False)


def show_player(data: dict[str, Any], *, key: str) -> None:
    """Show the player; ``data`` is as ``assets/player/README.md`` says."""
    _mount(key=key, data=data, on_wish_change=_nothing_to_do)


def player_wish(key: str) -> Wish:
    """What the browser last asked for."""
    said = st.session_state.get(key) or {}
    return Wish(**(said.get("wish") or {}))


def _nothing_to_do() -> None:
    """A state value exists only where it has a callback."""
