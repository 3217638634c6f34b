"""The player alone, with a saved trace: for looking at it and for browser tests.

Environment: ``SPECVIZ_TRACE``, a trace file; ``SPECVIZ_STATE``, a run state (recorded, done);
``SPECVIZ_TOUR``, one of ask, force, never.
"""

from __future__ import annotations

import os

import streamlit as st

from specviz.store import load_trace
from specviz.ui.payload import Plain, payload_of_trace
from specviz.ui.player import show_player

_KEY = "player"


@st.cache_resource
def _data(path: str, state: str) -> Plain:
    return payload_of_trace(load_trace(path), run_id=path, state=state, label=f"{state} · a trace")


st.set_page_config(layout="wide")
st.title("Watch a pair think ahead")
data = _data(os.environ["SPECVIZ_TRACE"], os.environ.get("SPECVIZ_STATE", "recorded"))
show_player({**data, "tour": os.environ.get("SPECVIZ_TOUR", "never")}, key=_KEY)
