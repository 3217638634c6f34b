"""Remove invalid numbers, such as ``inf``, from a link. No control writes such numbers.

Streamlit puts a link's value into its widget before the page's code runs, and an infinite number
in place of an integer ends the page with a traceback. So the shell checks the link first.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from specviz.record.drafters import DRAFTER_KEYS

# Free text and ids: there "inf" is a word and "1e400" may be an id.
TEXT_PARAMETERS = frozenset(
    ("prompt", "preset", "target_folder", "draft_folder", "target_id", "draft_id", "target_model",
     "draft_model", "lane", "run", "kept", "comparison", "runs_search", "server", "server_model",
     "baseline", "server_draft", "beside", *DRAFTER_KEYS.values(), "draft_until", "branching",
     "dynamic_tree", "chat", "load_mode")
)  # fmt: skip
_GREATEST = 2**53  # above this, a browser cannot represent every integer


def drop_invalid_numbers() -> None:
    """Remove invalid numbers from the link, and rerun the page if there were any."""
    values = {name: st.query_params.get_all(name) for name in st.query_params}
    invalid = [name for name in values if name not in TEXT_PARAMETERS and _is_invalid(values[name])]
    for name in invalid:
        _remove(name)
    if invalid:
        st.rerun()


def _remove(name: str) -> None:
    """Remove a parameter from the link, even if a widget is bound to the parameter.

    ``st.query_params`` refuses to remove a parameter with a widget. This case occurs if the user
    presses the browser's Back button and returns to a link with an invalid number.
    """
    context = get_script_run_ctx()
    assert context is not None
    with context.session_state.query_params() as params:
        params.remove_param(name)


def _is_invalid(values: Sequence[str]) -> bool:
    return any(not abs(number) <= _GREATEST for number in map(_number, values))


def _number(text: str) -> float:
    """Return the text as a number; return 0, a valid number, if the text is not a number.

    Controls ignore text that is not a number, so such text may stay in the link.
    """
    try:
        return float(text)
    except ValueError:
        return 0.0
