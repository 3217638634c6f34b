"""What a person takes away from a run: files, and a link to the same settings."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit

import streamlit as st

from specviz.analysis import rounds_frame
from specviz.store import trace_to_json
from specviz.ui.history import RECORDED, Shown


def show_downloads(shown: Shown) -> None:
    name = "recorded" if shown.id == RECORDED else f"{shown.trace.pair.name}-{shown.id[:8]}"
    name = name.replace("/", "_").replace(" ", "")
    st.download_button(
        "Trace, JSON",
        lambda: trace_to_json(shown.trace),
        file_name=f"specviz-{name}.json",
        mime="application/json",
        key="download_trace",
        type="tertiary",
        on_click="ignore",
    )
    st.download_button(
        "Rounds, CSV",
        lambda: rounds_frame(shown.trace).to_csv(index=False),
        file_name=f"specviz-{name}-rounds.csv",
        mime="text/csv",
        key="download_rounds",
        type="tertiary",
        on_click="ignore",
    )


def show_share(prompt: str) -> None:
    """The link holds every setting already; the prompt joins it only on request."""
    with st.popover("Share", key="share"):
        st.caption("This link opens the same settings. It loads nothing by itself.")
        with_prompt = st.toggle("Put the prompt in it", key="share_prompt")
        st.code(_link(prompt if with_prompt else None), language=None, wrap_lines=True)


def _link(prompt: str | None) -> str:
    parts = urlsplit(str(st.context.url or ""))
    settings = [
        f"{quote(name)}={quote(value)}"
        for name, value in st.query_params.items()
        if name not in {"prompt", "tour"}
    ]
    if prompt is not None:
        settings.append(f"prompt={quote(prompt)}")
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "&".join(settings), ""))
