"""Downloads of another engine's answer. Each file is generated on click."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st

from specviz.player.replay import replay_html
from specviz.record.server_run import ServerTrace
from specviz.store import trace_to_json
from specviz.store.tables import rounds_csv


def offer_answer_files(
    trace: ServerTrace,
    run_id: str,
    *,
    key: str,
    moment: Callable[[], Mapping[str, str] | None] = lambda: None,
) -> None:
    """Draw the download buttons.

    Args:
        trace: The answer.
        run_id: Its id, part of the file names.
        key: Prefix of the buttons' keys.
        moment: Returns where the replay opens; called when the replay is generated.
    """

    def replay(answer: ServerTrace) -> str:
        return replay_html(answer, moment=moment())

    for label, name, kind, make in (
        ("Download the trace (JSON)", "trace.json", "application/json", trace_to_json),
        ("Download the rounds (CSV)", "rounds.csv", "text/csv", rounds_csv),
        ("Download a replay (HTML)", "replay.html", "text/html", replay),
    ):
        st.download_button(
            label,
            partial(make, trace),
            file_name=f"specviz-{run_id[:8]}-{name}",
            mime=kind,
            key=f"{key}_{name.split('.', maxsplit=1)[0]}",
            type="tertiary",
            on_click="ignore",
        )
