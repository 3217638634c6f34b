"""The recorded comparison that Compare shows before the first one of the user."""

from __future__ import annotations

import streamlit as st

from specviz import ASSETS
from specviz.comparison import compare
from specviz.comparison.recorded_comparison import comparison_from_record
from specviz.ui.compare.results import Findings, show_results
from specviz.ui.widgets.recorded_example import prompt_sentence, show_example_caption

RECORDED = ASSETS / "recorded_comparison.json.gz"


def show_example() -> None:
    found = _recorded_findings()
    show_example_caption("Compare", prompt_sentence(found.comparison.plan.items[0].prompt))
    show_results(found, "recorded")


@st.cache_resource(show_spinner=False)
def _recorded_findings() -> Findings:
    plan, runs = comparison_from_record(RECORDED.read_bytes())
    return Findings(compare(plan, runs), runs)
