"""What a person takes away from a run: files, and a link to the same settings."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit

import streamlit as st

from specviz.ui.session.history import History

_LEFT_OUT = {"prompt", "tour", "more", "pair_panel", "run"}  # no settings of a run


def show_downloads(history: History) -> None:
    """The run on the stage, once all is at rest: until then it may be the one before."""
    shown, run = history.shown(), history.current
    resting = not shown.growing and (run is None or run.finished)
    for label, name, kind in (
        ("Download the trace (JSON)", "trace.json", "application/json"),
        ("Download the rounds (CSV)", "rounds.csv", "text/csv"),
        ("Download a replay (HTML)", "replay.html", "text/html"),
    ):
        st.download_button(
            label,
            history.file(shown, name) if resting else "",
            file_name=f"specviz-{shown.id[:8]}-{name}",
            mime=kind,
            key=f"download_{name.split('.', maxsplit=1)[0]}",
            type="tertiary",
            on_click="ignore",
            disabled=not resting,
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
        if name not in _LEFT_OUT
    ]
    if prompt is not None:
        settings.append(f"prompt={quote(prompt)}")
    path = parts.path or "/"
    return urlunsplit((parts.scheme, parts.netloc, path, "&".join(settings), ""))
