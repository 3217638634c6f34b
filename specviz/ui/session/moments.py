"""A moment of a run as a link says it: the player writes and reads its values."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

MOMENT = ("round", "step", "token", "speed", "draw")  # their names in the link
_LONGEST = 24  # characters


def linked_moment() -> dict[str, str]:
    """What the address of the page says; empty if it says nothing."""
    return sensible_moment({name: st.query_params.get(name, "") for name in MOMENT})


def sensible_moment(said: Mapping[str, str]) -> dict[str, str]:
    """Without what is no part of a moment."""
    return {n: said[n] for n in MOMENT if 0 < len(said.get(n, "")) <= _LONGEST}


def forget_linked_moment() -> None:
    for name in MOMENT:
        st.query_params.pop(name, None)
