"""The answer of another engine on Watch: one of the library, in the player, and its files."""

from __future__ import annotations

from functools import partial

import streamlit as st

from specviz.player.payload import RunLink, RunStatus
from specviz.player.replay import replay_html
from specviz.player.server_payload import server_payload
from specviz.store import trace_to_json
from specviz.store.tables import rounds_csv
from specviz.ui.session.history import ShownAnswer
from specviz.ui.session.moments import linked_moment
from specviz.ui.widgets.player import show_player


def show_answer(shown: ShownAnswer, key: str, *, local: bool) -> None:
    show_player(
        server_payload(
            shown.trace,
            _status(shown),
            link=RunLink(kept=True, settings=None, local=local),
            moment=linked_moment(),
        ),
        key=key,
    )


def _status(shown: ShownAnswer) -> RunStatus:
    trace = shown.trace
    when = trace.created.replace("T", " ")[:16]
    return RunStatus(
        id=shown.id,
        state="stopped" if trace.finish == "stopped" else "done",
        label=f"kept · {trace.info.title}",
        detail=f"{shown.name} · {when}" if shown.name else when,
    )


def show_answer_files(shown: ShownAnswer) -> None:
    """Made on the click."""
    for label, name, kind, make in (
        ("Download the trace (JSON)", "trace.json", "application/json", trace_to_json),
        ("Download the rounds (CSV)", "rounds.csv", "text/csv", rounds_csv),
        ("Download a replay (HTML)", "replay.html", "text/html", replay_html),
    ):
        st.download_button(
            label,
            partial(make, shown.trace),
            file_name=f"specviz-{shown.id[:8]}-{name}",
            mime=kind,
            key=f"download_{name.split('.', maxsplit=1)[0]}",
            type="tertiary",
            on_click="ignore",
        )
