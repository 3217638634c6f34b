"""The draggable bars: two small distributions that a person shapes by hand.

During a drag the browser has the truth; Python hears of it at most four times a second, and at the
end. Both distributions always sum to 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from specviz import ASSETS
from specviz.errors import TheoryError
from specviz.player.script_modules import component_script
from specviz.theory.tradeoff import distribution_pair

Laws = tuple[tuple[float, ...], tuple[float, ...]]  # distributions of draft and target

MOST_TOKENS = 8


def bars_source() -> tuple[str, str]:
    """The script of the bars, as one module, and their style sheet."""
    style = (ASSETS / "bars" / "bars.css").read_text(encoding="utf-8")
    return component_script(ASSETS, "bars/bars.js"), style


_SCRIPT, _STYLE = bars_source()
_mount = component("specviz_bars", js=_SCRIPT, css=_STYLE, isolate_styles=False)


def show_bars(
    draft: Sequence[float], target: Sequence[float], labels: Sequence[str], *, key: str
) -> Laws:
    """Show the bars; returns the distributions now. Other arguments start them anew."""
    assert 1 <= len(labels) <= MOST_TOKENS, len(labels)
    start = _laws(draft, target)
    mark = hashlib.sha256(repr((start, tuple(labels))).encode()).hexdigest()[:16]
    now = _said(key, mark, len(labels)) or start
    data = {"id": mark, "labels": list(labels), "start": _as_json(start), "now": _as_json(now)}
    _mount(key=key, data=data, on_laws_change=_nothing_to_do)
    return now


def _said(key: str, mark: str, size: int) -> Laws | None:
    """What the browser last said of these bars, if it is valid."""
    said = (st.session_state.get(key) or {}).get("laws")
    if not isinstance(said, dict) or said.get("id") != mark:
        return None
    try:
        laws = _laws(said["draft"], said["target"])
    except (KeyError, TypeError, ValueError, TheoryError):
        return None
    return laws if len(laws[0]) == size else None


def _laws(draft: Sequence[float], target: Sequence[float]) -> Laws:
    first, second = distribution_pair(draft, target)
    return tuple(first.tolist()), tuple(second.tolist())


def _as_json(laws: Laws) -> dict[str, Any]:
    return {"draft": list(laws[0]), "target": list(laws[1])}


def _nothing_to_do() -> None:
    """Streamlit returns a state value only if it has a callback."""
