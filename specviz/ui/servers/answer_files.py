"""Files of the answer that is shown, and where the library's copy opens."""

from __future__ import annotations

import streamlit as st

from specviz.ui.session.answers import Answers
from specviz.ui.widgets.answer_files import offer_answer_files
from specviz.ui.widgets.plain_text import as_text


def show_files(answers: Answers) -> None:
    """Nothing before the answer is over. A file is made on the click."""
    run = answers.shown()
    if run is None or not run.finished:
        return
    if run.not_saved is not None:
        st.warning(f"The answer is not in the library. {as_text(run.not_saved)}")
    with st.container(horizontal=True, vertical_alignment="center", key="downloads"):
        offer_answer_files(run.trace, run.id, key="server")
        if run.kept_as is not None:
            st.page_link(
                "pages/watch.py", label="Open it on Watch", query_params={"run": run.kept_as},
                width="content",
            )  # fmt: skip
