"""Download buttons for a run of specviz or of another engine.

Streamlit can generate a file on click, but deletes such a file after two reruns. A page that
redraws itself may rerun twice before the browser has fetched the file. So each file is generated
when its button is drawn, once for a run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from specviz.record.server_run import AnyTrace
from specviz.store import trace_to_json
from specviz.store.tables import rounds_csv
from specviz.ui.downloads import download_button

_TEXTS = "run files"  # session state: the run whose files were offered last, and their texts


def offer_run_files(
    trace: AnyTrace,
    run_id: str,
    replay: Callable[[], str],
    *,
    key: str,
    shown_at: object = None,
    disabled: bool = False,
) -> None:
    """Draw buttons that download a run's trace, rounds and replay; their keys begin with ``key``.

    Args:
        replay: Generates the replay.
        shown_at: What the replay depends on besides the trace. If it changes, the files are remade.
    """
    run = (run_id, trace, shown_at)
    for label, name, kind, make in (
        ("the trace (JSON)", "trace.json", "application/json", partial(trace_to_json, trace)),
        ("the rounds (CSV)", "rounds.csv", "text/csv", partial(rounds_csv, trace)),
        ("a replay (HTML)", "replay.html", "text/html", replay),
    ):
        download_button(
            f"Download {label}",
            "" if disabled else _text(run, name, make),
            file_name=f"specviz-{run_id[:8]}-{name}",
            mime=kind,
            key=f"{key}_{name.split('.', maxsplit=1)[0]}",
            type="tertiary",
            disabled=disabled,
        )


def _text(run: tuple[object, ...], name: str, make: Callable[[], str]) -> str:
    kept = st.session_state.get(_TEXTS)
    if kept is None or kept[0] != run:
        kept = st.session_state[_TEXTS] = (run, dict[str, str]())
    if name not in kept[1]:
        kept[1][name] = make()
    return kept[1][name]
