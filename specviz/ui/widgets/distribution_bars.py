"""Draggable bars with which a user shapes two small distributions.

During a drag, the browser sends the current values to Python at most four times a second. When the
drag ends, it sends them once more. Both distributions always sum to 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import streamlit as st

from specviz.errors import TheoryError
from specviz.theory.tradeoff import distribution_pair
from specviz.ui.widgets.asset_component import asset_component

DistributionPair = tuple[tuple[float, ...], tuple[float, ...]]  # distributions of draft and target

MOST_TOKENS = 8

_mount = asset_component("bars")


def show_bars(
    draft: Sequence[float], target: Sequence[float], labels: Sequence[str], *, key: str
) -> DistributionPair:
    """Show the bars and return the distributions that the user has set for draft and target.

    The bars start from ``draft`` and ``target``, and restart if an argument changes between calls.
    """
    assert 1 <= len(labels) <= MOST_TOKENS, len(labels)
    start = _normalised(draft, target)
    mark = hashlib.sha256(repr((start, tuple(labels))).encode()).hexdigest()[:16]
    now = _received(key, mark, len(labels)) or start
    data = {"id": mark, "labels": list(labels), "start": _as_json(start), "now": _as_json(now)}
    _mount(key=key, data=data, on_laws_change=_nothing_to_do)
    return now


def _received(key: str, mark: str, size: int) -> DistributionPair | None:
    """Return the distributions that the browser last sent for the bars with the id ``mark``.

    The result is None if the browser sent nothing, or if the distributions are invalid.
    """
    sent = (st.session_state.get(key) or {}).get("laws")
    if not isinstance(sent, dict) or sent.get("id") != mark:
        return None
    try:
        pair = _normalised(sent["draft"], sent["target"])
    except (KeyError, TypeError, ValueError, TheoryError):
        return None
    return pair if len(pair[0]) == size else None


def _normalised(draft: Sequence[float], target: Sequence[float]) -> DistributionPair:
    first, second = distribution_pair(draft, target)
    return tuple(first.tolist()), tuple(second.tolist())


def _as_json(pair: DistributionPair) -> dict[str, Any]:
    return {"draft": list(pair[0]), "target": list(pair[1])}


def _nothing_to_do() -> None:
    """Do nothing: Streamlit returns a state value only if a callback is registered for it."""
