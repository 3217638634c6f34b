"""Offer files of the shown answer, and a link to its copy in the library."""

from __future__ import annotations

from functools import partial

import streamlit as st

from specviz.player.replay import replay_html
from specviz.ui.session.answers import Answers
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.run_files import offer_run_files


def show_files(answers: Answers) -> None:
    """Draw download buttons and a link to Watch, once the answer is finished."""
    run = answers.shown()
    if run is None or not run.finished:
        return
    if run.save_error is not None:
        st.warning(f"The answer could not be saved in the library. {as_text(run.save_error)}")
    with st.container(horizontal=True, vertical_alignment="center", key="downloads"):
        offer_run_files(run.trace, run.id, partial(replay_html, run.trace), key="server")
        if run.saved_id is not None:
            st.page_link(
                "pages/watch.py", label="Open in Watch", query_params={"run": run.saved_id},
                width="content",
            )  # fmt: skip
