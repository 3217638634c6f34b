"""The query parameters of a moment in the replay of a run, for example a round and a token.

The player writes and reads them.
"""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

MOMENT = ("round", "step", "token", "speed", "draw")  # names of the query parameters
_LONGEST = 24  # most characters of a value


def linked_moment() -> dict[str, str]:
    """Return those query parameters of the page's address that name a moment in a run's replay."""
    return valid_moment({name: st.query_params.get(name, "") for name in MOMENT})


def valid_moment(values: Mapping[str, str]) -> dict[str, str]:
    """Return only the parameters of a moment, without values that are empty or too long."""
    return {n: values[n] for n in MOMENT if 0 < len(values.get(n, "")) <= _LONGEST}


def forget_linked_moment() -> None:
    for name in MOMENT:
        st.query_params.pop(name, None)
