"""Tune's ranking of drafts and methods.

A row of the ranking can be opened on another page. The best rows can race.
"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from specviz.access.roles import Action
from specviz.figures.speedup_words import shown_speedup
from specviz.tune.advice import (
    ON_SIMILAR_TEXTS,
    basis_text,
    memory_text,
    reason,
    speedup_text,
    unranked_text,
)
from specviz.tune.answer import Answer
from specviz.tune.confirming import RaceJob
from specviz.ui.session.person import the_person
from specviz.ui.tune.charts import candidates_chart
from specviz.ui.tune.current import follow, race, shown_race
from specviz.ui.tune.opening import offer_rows
from specviz.ui.tune.surface_section import measured_table
from specviz.ui.widgets.page_parts import show_chart
from specviz.ui.widgets.plain_text import as_text


def show_candidates(answer: Answer) -> None:
    rows, may = answer.ranked, the_person().may(Action.MEASURE)
    if not rows:
        st.caption("No draft or method has a speedup yet.")
        return
    frame = pd.DataFrame.from_dict(
        {
            "candidate": [as_text(each.label) for each, _ in rows],
            "best γ": [str(cell.gamma) for _, cell in rows],
            "speedup": [as_text(speedup_text(cell)) for _, cell in rows],
            "memory": [as_text(memory_text(each)) for each, _ in rows],
            "why": [
                f"{as_text(basis_text(each, cell))}. {as_text(reason(each, cell).capitalize())}."
                for each, cell in rows
            ],
        }
    )
    with st.container(key="tune_ranking"):
        st.table(frame, border="horizontal", hide_index=True)
    st.caption(
        f"This ranking is for temperature {answer.temperature:g}, {ON_SIMILAR_TEXTS}. The first "
        f"rank is partly due to chance: check the intervals{' and press *Confirm*' if may else ''}."
    )
    if unknown := unranked_text(answer):
        st.caption(as_text(unknown))
    offer_rows(answer)
    if may and len(rows) > 1 and answer.question.text is None:
        _show_confirm(answer)
    show_chart(
        candidates_chart(
            [each.label for each, _ in rows], [each.surface for each, _ in rows], answer.temperature
        ),
        "Each curve is a draft or a method. Its speedups are expected, or measured in short runs.",
        "exact", "measured", key="tune_candidates",
        alt="Speedup at each γ, with a line per draft or method",
    )  # fmt: skip


def _show_confirm(answer: Answer) -> None:
    count = min(3, len(answer.ranked))
    st.button(
        f"Confirm: race the first {count}", key="tune_confirm", on_click=race,
        args=(answer.ranked[:3], answer.question.items),
        help="Measures these drafts and methods in stages. After each stage, the slower half "
        "drops out.",
    )  # fmt: skip
    job = shown_race(answer)
    if job is not None:
        follow(job, lambda: _race_table(job))


def _race_table(job: RaceJob) -> None:
    if job.cells and not job.going and job.error is None and not job.was_stopped:
        first = job.cells[0]
        st.markdown(
            f"**Fastest when measured: {as_text(first.label)} with γ {first.gamma}**, "
            f"{shown_speedup(first.speedup, first.low, first.high)}."
        )
    measured_table(job.cells)
