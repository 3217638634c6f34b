"""Button presses, stored until the page has handled them.

Streamlit reports a press to one script run only. Streamlit may end this script run before the page
has handled the press, because a fragment's timer can fire at the same time and rerun the page.
"""

from __future__ import annotations

from typing import Any

import streamlit as st


def press_button(label: str, *, key: str, **options: Any) -> None:
    """Draw a button; ``take_press`` with the same key returns whether the user pressed it."""
    st.button(label, key=key, on_click=press, args=(key,), **options)


def take_press(key: str) -> bool:
    """Return whether the button was pressed since the last call, and clear the press.

    The button may be drawn after this call.
    """
    return bool(st.session_state.pop(_name(key), False))


def is_pressed(key: str) -> bool:
    """Return whether there is a press that ``take_press`` has not reported yet."""
    return bool(st.session_state.get(_name(key)))


def press(key: str) -> None:
    """Store a press of a button, or an equivalent action on another control."""
    st.session_state[_name(key)] = True


def _name(key: str) -> str:
    return f"{key} was pressed"
