"""The counters of an engine over all its requests: live, or from a file."""

from __future__ import annotations

import hashlib
from functools import partial

import streamlit as st

from specviz.errors import ServerError, SpecvizError
from specviz.record.server_run import Counters, ServerInfo
from specviz.servers.counter_poller import (
    AVERAGE_SECONDS,
    RECENT_SECONDS,
    CounterHistory,
    CounterPoller,
    history_of,
)
from specviz.servers.counters import counters_of_dump, read_counters
from specviz.servers.vllm_log import counters_of_log
from specviz.ui.servers.counter_board import board_event, show_board
from specviz.ui.servers.counter_data import board_data
from specviz.ui.session.sent_rounds import SentRounds
from specviz.ui.widgets.plain_text import show_error

_LIVE, _SAVED = "server_counters", "server_saved"
_TICK = 1.0  # seconds
_FIRST = 2.0  # seconds to wait for the first reading at most
_MOST_BYTES = 50_000_000


@st.cache_resource(show_spinner=False)
def the_pollers() -> dict[str, CounterPoller]:
    """Return the pollers of engines' counters, by address. All tabs share the pollers."""
    return {}


def _poller(info: ServerInfo, *, granted: bool) -> CounterPoller:
    read = partial(read_counters, info, allow_remote=granted)
    return the_pollers().setdefault(info.address, CounterPoller(read))


def show_counters(info: ServerInfo, *, granted: bool) -> None:
    st.markdown("#### All requests of the engine")
    if not info.capabilities.counters:
        st.caption(
            "This engine exposes no metrics: it does not support them, or they are turned off."
        )
        return
    st.caption(
        "The engine counts the requests of all clients. While *Follow* is on, the page reads the "
        f"counters once a second. A point is the mean over at most "
        f"the last {AVERAGE_SECONDS:.0f} seconds."
    )
    if st.toggle("Follow", key="server_follow", bind="query-params"):
        _follow(_poller(info, granted=granted), info)


def _follow(poller: CounterPoller, info: ServerInfo) -> None:
    sent: SentRounds = st.session_state.setdefault("counters sent", SentRounds())
    wait = [_FIRST]

    @st.fragment(run_every=_TICK)
    def board() -> None:
        seen = poller.look(wait.pop() if wait else 0.0)
        if seen.last is None and seen.error is not None:
            show_error(seen.error)
            return
        name = f"{info.address} {info.model}"
        start = sent.next_start(name, seen.total, board_event(_LIVE))
        data = board_data(
            seen, name=name, start=start, live=True, recent=_recent_label(seen),
            began="since the engine started",
        )  # fmt: skip
        show_board(data, key=_LIVE)

    board()


def _recent_label(seen: CounterHistory) -> str:
    seconds = seen.recent.seconds if seen.recent else 0.0
    return "in the last minute" if seconds > RECENT_SECONDS - 2 else f"in the last {seconds:.0f} s"


def show_file() -> None:
    """Draw the counters from a file: a saved /metrics output, or an engine's log."""
    with st.expander("From a file", key="server_file_box"):
        file = st.file_uploader(
            "A saved /metrics output, or an engine's log", key="server_file",
            help="The /metrics output of vLLM, llama.cpp or SGLang, or a log of vLLM.",
        )  # fmt: skip
        if file is None:
            return
        try:
            if file.size > _MOST_BYTES:
                raise ServerError(
                    f"The file is larger than {_MOST_BYTES // 10**6} MB.",
                    remedy="Upload only the last part of the file.",
                )
            text = file.getvalue().decode("utf-8", errors="replace")
            found = counters_of_log(text) or (counters_of_dump(text),)
        except SpecvizError as error:
            show_error(error)
            return
        _show_saved(history_of(found), found, text)


def _show_saved(seen: CounterHistory, found: tuple[Counters, ...], text: str) -> None:
    lines = len(found) - 1
    what = f"A log with {lines} lines of counters" if lines else "A /metrics output"
    st.caption(f"{what}.")
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    recent = "over the log" if lines else "in this file"
    data = board_data(seen, name=name, start=0, live=False, recent=recent, began="in total")
    show_board(data, key=_SAVED)
