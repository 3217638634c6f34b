"""The player alone with a saved trace, or the bars, for manual checks and browser tests.

Environment: ``SPECVIZ_TRACES``, a folder of trace files (default: the recorded run's folder). The
link: ``trace``, a file name without extension; ``state``, a run state (recorded, done);
``forks``, if it can be forked; ``tour``, one of ask, force, never; ``race``, names of files that
race instead; ``bars``, if the bars are shown instead.
"""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

from specviz.player.any_run import payload_of_run
from specviz.player.payload import JsonObject
from specviz.player.racing import race_payload
from specviz.store import load_trace
from specviz.ui.widgets.player import show_player
from tests.browser.apps import bars_page

_KEY = "player"
_ASSETS = Path(__file__).parent.parent.parent.parent / "assets"


@st.cache_resource
def _data(path: Path, state: str) -> JsonObject:
    run_id = f"{path.stem} {state}"
    return payload_of_run(load_trace(path), run_id=run_id, state=state, label=f"{state} · a trace")


@st.cache_resource
def _race(folder: Path, names: str) -> JsonObject:
    lanes = names.split(",")
    return race_payload(lanes, [load_trace(folder / f"{name}.json") for name in lanes])


st.set_page_config(layout="wide")
if "bars" in st.query_params:
    bars_page.draw()
    st.stop()
st.title("Watch a pair think ahead")
folder, link = Path(os.environ.get("SPECVIZ_TRACES", _ASSETS)), st.query_params
if "race" in link:
    show_player(_race(folder, link["race"]), key=_KEY)
    st.stop()
data = _data(folder / f"{link.get('trace', 'first_trace')}.json", link.get("state", "recorded"))
run = {**data["run"], "forkable": "forks" in link}
show_player({**data, "run": run, "tour": link.get("tour", "never")}, key=_KEY)
