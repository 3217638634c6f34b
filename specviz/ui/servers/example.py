"""The recorded answer that Servers shows before an address is given."""

from __future__ import annotations

import streamlit as st

from specviz import ASSETS
from specviz.access.roles import Action
from specviz.player.payload import RunStatus
from specviz.player.server_payload import server_payload
from specviz.record.server_run import ServerTrace
from specviz.store.traces import load_run
from specviz.ui.servers.card import show_card
from specviz.ui.widgets.player import show_player
from specviz.ui.widgets.recorded_example import prompt_sentence, show_example_caption

RECORDED = ASSETS / "recorded_server_answer.json"


def show_example() -> None:
    trace = _recorded_answer()
    show_example_caption("Ask", prompt_sentence(trace.prompt), Action.ASK_SERVER)
    show_card(trace.info)
    label = f"recorded · {trace.info.title} · {trace.info.model}"
    status = RunStatus(id="recorded answer", state="done", label=label)
    show_player(server_payload(trace, status), key="server_player_recorded")


@st.cache_resource(show_spinner=False)
def _recorded_answer() -> ServerTrace:
    trace = load_run(RECORDED)
    assert isinstance(trace, ServerTrace)
    return trace
