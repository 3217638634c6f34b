"""Files of the answer that is shown, and whether the library has it."""

from __future__ import annotations

import streamlit as st

from specviz.ui.session.answers import Answers
from specviz.ui.widgets.plain_text import as_text


def show_files(answers: Answers) -> None:
    """Nothing before the answer is over; what is timed meanwhile comes into them later."""
    run = answers.shown()
    if run is None or not run.finished:
        return
    if run.not_saved is not None:
        st.warning(f"The answer is not in the library. {as_text(run.not_saved)}")
    with st.container(horizontal=True, key="downloads"):
        for label, name, kind in (
            ("Download the trace (JSON)", "trace.json", "application/json"),
            ("Download the rounds (CSV)", "rounds.csv", "text/csv"),
            ("Download a replay (HTML)", "replay.html", "text/html"),
        ):
            st.download_button(
                label,
                answers.file(run, name),
                file_name=f"specviz-{run.id[:8]}-{name}",
                mime=kind,
                key=f"server_{name.split('.', maxsplit=1)[0]}",
                type="tertiary",
                on_click="ignore",
            )
