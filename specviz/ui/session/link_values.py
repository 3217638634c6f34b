"""Numbers in a link that no control could have written, such as ``inf``, are taken out of it.

Streamlit puts a link's value into its widget before the page's own code runs, and an infinite
number where a whole one belongs ends the page in a traceback. So the frame looks at the link first.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

# Text that a person writes, and ids: there "inf" is a word and "1e400" may be an id.
WORDS = frozenset(
    ("prompt", "preset", "target_folder", "draft_folder", "target_id", "draft_id", "lane", "run",
     "kept", "comparison", "runs_search", "server", "server_model", "baseline",
     "server_draft", "beside", "drafter", "draft_until", "branching")
)  # fmt: skip
_GREATEST = 2**53  # beyond it a browser no longer tells whole numbers apart


def drop_senseless_numbers() -> None:
    """Where the link has any, the page starts over without them."""
    said = {name: st.query_params.get_all(name) for name in st.query_params}
    senseless = [name for name in said if name not in WORDS and _is_senseless(said[name])]
    for name in senseless:
        _forget(name)
    if senseless:
        st.rerun()


def _forget(name: str) -> None:
    """Removes it even where a widget is bound to it, which ``st.query_params`` refuses to do: a
    person who goes back to such a link finds the page's widgets there already."""
    context = get_script_run_ctx()
    assert context is not None
    with context.session_state.query_params() as params:
        params.remove_param(name)


def _is_senseless(values: Sequence[str]) -> bool:
    return any(not abs(number) <= _GREATEST for number in map(_number, values))


def _number(text: str) -> float:
    """0 for what is not a number: a control drops that by itself."""
    try:
        return float(text)
    except ValueError:
        return 0.0
