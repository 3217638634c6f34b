"""The player: the files under ``assets/player`` joined into one Streamlit component.

It is registered once, at import. ``show_player`` sends data; ``player_has`` is what the browser
says it holds, so that nothing is sent twice for long.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2 import component

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Have:
    """How many rounds of which run the browser has; ``run`` is None before its first word."""

    run: str | None = None
    count: int = 0


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
    _mount(key=key, data=data, on_have_change=_nothing_to_do)


def player_has(key: str) -> Have:
    """What the browser last said it has; nothing before the player is there."""
    said = st.session_state.get(key) or {}
    have = said.get("have") or {}
    return Have(run=have.get("run"), count=have.get("count", 0))


def _nothing_to_do() -> None:
    """A state value exists only where it has a callback."""
