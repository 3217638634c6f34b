"""Files of the run that is shown, and a link to the settings."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit

import streamlit as st

from specviz.record.bodies import NO_BODY
from specviz.ui.session.history import History
from specviz.ui.session.tabs import TAB_LINK
from specviz.ui.widgets.pair_boxes import TARGET_BODY, bodies_are_chosen

_LEFT_OUT = {
    "prompt",
    "tour",
    "more",
    "pair_panel",
    "run",
    TAB_LINK,
}  # in the address, but not settings of a run


def show_downloads(history: History) -> None:
    """Of the run that is shown, once nothing is under way: before, that may be an older run."""
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
    """The link holds every setting; the prompt joins it only on request."""
    with st.popover("Share", key="share"):
        st.caption("This link opens the page with the same settings. It loads no model by itself.")
        with_prompt = st.toggle("Include the prompt", key="share_prompt")
        st.code(_link(prompt if with_prompt else None), language=None, wrap_lines=True)


def _link(prompt: str | None) -> str:
    parts = urlsplit(str(st.context.url or ""))
    settings = [
        f"{quote(name)}={quote(value)}"
        for name, value in st.query_params.items()
        if name not in _LEFT_OUT
    ]
    if not bodies_are_chosen():  # what a run would have now
        settings.append(f"{TARGET_BODY}={NO_BODY}")
    if prompt is not None:
        settings.append(f"prompt={quote(prompt)}")
    path = parts.path or "/"
    return urlunsplit((parts.scheme, parts.netloc, path, "&".join(settings), ""))
