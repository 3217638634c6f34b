"""A select box whose options and value the page may change at any time.

With every message, the browser reports the values of all controls. If the page writes a value into
a control while the user chooses a different value, the browser may report the written value
afterwards, and that report would look like a choice of the user. So the page never writes to a
control after it is drawn: for another value or other options, it draws a new control. A report
counts as a choice only if it differs from the last known value of the control.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import streamlit as st

from specviz.ui.session.tabs import OPEN_PAGE


@dataclass(slots=True)
class _Controls:
    """The select boxes drawn so far for one setting, and the last known value of each."""

    drawn: object = None  # what the latest control was drawn for: its page and labels
    values: list[str | None] = field(default_factory=list[str | None])

    def key(self, name: str) -> str:
        return f"{name} {len(self.values)}"


def choice_box(
    name: str,
    label: str,
    labels: Mapping[str, str],
    value: str | None,
    take: Callable[[str | None], object],
    *,
    placeholder: str | None = None,
) -> None:
    """Draw a select box. When the user chooses an option, call ``take`` with this option.

    Args:
        name: The key of the container, and the start of the control's key.
        label: The text above the control.
        labels: The text of each option.
        value: The option to show, or None for no option.
        take: Called with the option that the user chooses.
        placeholder: Shown while no option is chosen. If None, an option is always chosen.
    """
    controls = st.session_state.setdefault(f"controls of {name}", _Controls())
    labels = dict(labels)
    drawn = st.session_state.get(OPEN_PAGE), labels
    key = controls.key(name)
    same = controls.drawn == drawn and controls.values[-1:] == [value]
    if not same or key not in st.session_state:
        controls.drawn = drawn
        controls.values.append(value)
        key = controls.key(name)
        st.session_state[key] = value
    with st.container(key=name):
        st.selectbox(
            label, list(labels), None if placeholder else 0, key=key, placeholder=placeholder,
            format_func=lambda each: labels.get(str(each), str(each)), disabled=not labels,
            on_change=_take, args=(controls, len(controls.values) - 1, key, take),
        )  # fmt: skip


def _take(controls: _Controls, number: int, key: str, take: Callable[[str | None], object]) -> None:
    value = st.session_state[key]
    if value != controls.values[number]:
        controls.values[number] = value
        take(value)
