"""Downloads of a run of specviz or of another engine. Each file is generated on click."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from specviz.record.server_run import AnyTrace
from specviz.store import trace_to_json
from specviz.store.tables import rounds_csv


def offer_run_files(
    trace: AnyTrace, run_id: str, replay: Callable[[], str], *, key: str, disabled: bool = False
) -> None:
    """Draw the download buttons; their keys begin with ``key``."""
    for label, name, kind, make in (
        ("the trace (JSON)", "trace.json", "application/json", partial(trace_to_json, trace)),
        ("the rounds (CSV)", "rounds.csv", "text/csv", partial(rounds_csv, trace)),
        ("a replay (HTML)", "replay.html", "text/html", replay),
    ):
        st.download_button(
            f"Download {label}",
            make,
            file_name=f"specviz-{run_id[:8]}-{name}",
            mime=kind,
            key=f"{key}_{name.split('.', maxsplit=1)[0]}",
            type="tertiary",
            on_click="ignore",
            disabled=disabled,
        )
