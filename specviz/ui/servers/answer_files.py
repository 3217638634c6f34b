"""Files of the answer that is shown, and where the library's copy opens."""

from __future__ import annotations

from functools import partial

import streamlit as st

from specviz.player.replay import replay_html
from specviz.store import trace_to_json
from specviz.store.tables import rounds_csv
from specviz.ui.session.answers import Answers
from specviz.ui.widgets.plain_text import as_text


def show_files(answers: Answers) -> None:
    """Nothing before the answer is over. A file is made on the click."""
    run = answers.shown()
    if run is None or not run.finished:
        return
    if run.not_saved is not None:
        st.warning(f"The answer is not in the library. {as_text(run.not_saved)}")
    with st.container(horizontal=True, vertical_alignment="center", key="downloads"):
        for label, name, kind, make in (
            ("Download the trace (JSON)", "trace.json", "application/json", trace_to_json),
            ("Download the rounds (CSV)", "rounds.csv", "text/csv", rounds_csv),
            ("Download a replay (HTML)", "replay.html", "text/html", replay_html),
        ):
            st.download_button(
                label,
                partial(make, run.trace),
                file_name=f"specviz-{run.id[:8]}-{name}",
                mime=kind,
                key=f"server_{name.split('.', maxsplit=1)[0]}",
                type="tertiary",
                on_click="ignore",
            )
        if run.kept_as is not None:
            st.page_link(
                "pages/watch.py", label="Open it on Watch", query_params={"run": run.kept_as},
                width="content",
            )  # fmt: skip
