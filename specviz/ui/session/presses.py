"""Presses of buttons that a page acts on itself, kept until it has.

Streamlit tells a script once that a button was pressed, and may end that script before it gets so
far: a part that draws itself again can be due in the same round, and ask for the whole page.
"""

from __future__ import annotations

from typing import Any

import streamlit as st


def press_button(label: str, *, key: str, **how: Any) -> None:
    st.button(label, key=key, on_click=_keep, args=(key,), **how)


def take_press(key: str) -> bool:
    """Whether that button was pressed since this was last asked; it may be drawn later."""
    return bool(st.session_state.pop(_name(key), False))


def _keep(key: str) -> None:
    st.session_state[_name(key)] = True


def _name(key: str) -> str:
    return f"{key} was pressed"
