"""The recorded answer that Tune shows until the user computes an answer."""

from __future__ import annotations

import streamlit as st

from specviz import ASSETS
from specviz.tune.answer import Answer
from specviz.tune.recorded_answer import answer_from_record
from specviz.ui.tune.surface_section import show_advice_of
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.recorded_example import prompt_sentence, show_example_caption

RECORDED = ASSETS / "recorded_answer.json"


def show_example() -> Answer:
    """Draw the recorded answer's caption and advice; return the answer, which the tabs show."""
    answer = _recorded_answer()
    asked = answer.question
    pair = f"Pair: {as_text(asked.lanes[0].spec.title)}."
    show_example_caption("Compute", f"{pair} {prompt_sentence(asked.items[0].prompt)}")
    show_advice_of(answer, given=False)
    return answer


@st.cache_resource(show_spinner=False)
def _recorded_answer() -> Answer:
    return answer_from_record(RECORDED.read_text(encoding="utf-8"))
