"""A long run fed to the player as a live one, at a constant rate, after a click on Start.

The page shows its start time in seconds since 1970: round ``i`` is due ``(i + 1) / FED_RATE``
seconds later and is sent to the player with the next tick.
"""

from __future__ import annotations

import time
from dataclasses import replace

import streamlit as st

from specviz.player.any_run import payload_of_run
from specviz.player.payload import JsonObject, RunStatus, payload
from specviz.record.trace import Trace
from specviz.ui.session.sent_rounds import SentRounds
from specviz.ui.widgets.player import requested_rounds, show_player
from tests.browser.long_runs import FED_RATE, fed_run, recorded

_TICK = 0.25  # seconds, as on Watch
_KEY = "player"


@st.cache_resource
def _run() -> Trace:
    return fed_run()


@st.cache_resource
def _at_rest() -> JsonObject:
    return payload_of_run(recorded(), run_id="before", state="done", label="the run before")


def _happened(began: float) -> int:
    return min(len(_run().rounds), int((time.time() - began) * FED_RATE))


def _data(count: int) -> JsonObject:
    """Return the run after some rounds; the target alone is timed at the end."""
    trace = _run()
    growing = count < len(trace.rounds)
    if growing:
        trace = replace(trace, rounds=trace.rounds[:count], baseline=None)
    state = "running" if growing else "done"
    status = RunStatus(id="fed", state=state, label="live", decoded=not growing)
    sent: SentRounds = st.session_state.setdefault("sent rounds", SentRounds())
    start = sent.next_start("fed", len(trace.rounds), requested_rounds(_KEY))
    return payload(trace, status, start=start, growing=growing)


def _feed(began: float) -> None:
    count = _happened(began)
    show_player(_data(count), key=_KEY)
    if count == len(_run().rounds) and not st.session_state.get("over"):
        st.session_state["over"] = True
        st.rerun()  # the ticks end


st.set_page_config(layout="wide")
if st.button("Start", key="start"):
    st.session_state["began"] = time.time()
began: float | None = st.session_state.get("began")
st.container(key="began").text(repr(began))


@st.fragment(run_every=_TICK if began and not st.session_state.get("over") else None)
def draw() -> None:
    if began is None:
        show_player(_at_rest(), key=_KEY)
    else:
        _feed(began)


draw()
