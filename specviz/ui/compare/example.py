"""The recorded comparisons that Compare shows until the user starts one."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from specviz import ASSETS
from specviz.comparison import compare
from specviz.comparison.recorded_comparison import comparison_from_record
from specviz.ui.compare.current import JobName
from specviz.ui.compare.results import Findings, show_results
from specviz.ui.widgets.recorded_example import prompt_sentence, show_example_caption

RECORDED: dict[JobName, Path] = {
    "prompt": ASSETS / "recorded_comparison.json.gz",
    "suite": ASSETS / "recorded_kinds.json.gz",
}


def show_example(name: JobName) -> None:
    found = _recorded_findings(name)
    items = found.comparison.plan.items
    if len(items) == 1:
        show_example_caption("Compare", prompt_sentence(items[0].prompt))
    else:
        kinds = len({each.kind for each in items})
        about = f"A draft model against prompt lookup, on {len(items)} prompts of {kinds} kinds."
        show_example_caption("Compare by kind", about)
    show_results(found, f"recorded_{name}")


@st.cache_resource(show_spinner=False)
def _recorded_findings(name: JobName) -> Findings:
    plan, runs = comparison_from_record(RECORDED[name].read_bytes())
    return Findings(compare(plan, runs), runs)
