"""The query parameters that name a moment in a run's replay: its round and token, for example.

The player writes and reads these parameters.
"""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

MOMENT = ("round", "step", "token", "speed", "draw")  # names of the query parameters
_LONGEST = 24  # most characters of a value


def linked_moment() -> dict[str, str]:
    """Return the moment in a run's replay that the page's address names, as query parameters."""
    return valid_moment({name: st.query_params.get(name, "") for name in MOMENT})


def valid_moment(values: Mapping[str, str]) -> dict[str, str]:
    """Return only the parameters of a moment, without values that are empty or too long."""
    return {n: values[n] for n in MOMENT if 0 < len(values.get(n, "")) <= _LONGEST}


def forget_linked_moment() -> None:
    for name in MOMENT:
        st.query_params.pop(name, None)
