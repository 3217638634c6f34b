"""Downloads of a load sweep. Each file is made once per sweep, when its button is first drawn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from specviz.load.export import sweep_csv, sweep_html
from specviz.load.stored import sweep_to_json
from specviz.record.load_run import LoadSweep
from specviz.ui.downloads import download_button

_TEXTS = "load files"  # session state: the sweep whose files were offered last, and their texts


def offer_files(sweep: LoadSweep, key: str) -> None:
    with st.container(horizontal=True, key=f"load_files_{key}"):
        for label, name, kind, make in (
            ("the sweep (JSON)", "sweep.json", "application/json", partial(sweep_to_json, sweep)),
            ("the blocks (CSV)", "blocks.csv", "text/csv", partial(sweep_csv, sweep)),
            ("a report (HTML)", "report.html", "text/html", partial(sweep_html, sweep)),
        ):
            download_button(
                f"Download {label}", _text(sweep, name, make), mime=kind, type="tertiary",
                file_name=f"specviz-load-{sweep.id[-8:]}-{name}",
                key=f"load_{key}_{name.split('.', maxsplit=1)[0]}",
            )  # fmt: skip


def _text(sweep: LoadSweep, name: str, make: Callable[[], str]) -> str:
    known = sweep.id, len(sweep.blocks), sweep.complete
    kept = st.session_state.get(_TEXTS)
    if kept is None or kept[0] != known:
        kept = st.session_state[_TEXTS] = known, dict[str, str]()
    if name not in kept[1]:
        kept[1][name] = make()
    return kept[1][name]
