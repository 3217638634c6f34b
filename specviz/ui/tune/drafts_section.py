"""Which draft, which way: the candidates ranked, opened elsewhere, and the first few raced."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from specviz.record.numbers import RATIO
from specviz.tune.advice import (
    LIKE_THESE,
    cell_words,
    how_found,
    memory_words,
    reason,
    unknown_words,
)
from specviz.tune.answer import Answer
from specviz.tune.confirming import RaceJob
from specviz.ui.tune.charts import candidates_chart
from specviz.ui.tune.current import follow, race, shown
from specviz.ui.tune.opening import offer_rows
from specviz.ui.tune.surface_section import measured_table
from specviz.ui.widgets.page_parts import show_chart
from specviz.ui.widgets.plain_text import as_text


def show_candidates(answer: Answer) -> None:
    rows = answer.ranked
    if not rows:
        st.caption("No candidate has a speedup yet.")
        return
    frame = pd.DataFrame.from_dict(
        {
            "candidate": [as_text(each.label) for each, _ in rows],
            "best γ": [str(cell.gamma) for _, cell in rows],
            "speedup": [as_text(cell_words(cell)) for _, cell in rows],
            "memory": [as_text(memory_words(each)) for each, _ in rows],
            "why": [
                f"{as_text(how_found(each, cell))}. {as_text(reason(each, cell).capitalize())}."
                for each, cell in rows
            ],
        }
    )
    with st.container(key="tune_ranking"):
        st.table(frame, border="horizontal", hide_index=True)
    st.caption(
        f"At temperature {answer.temperature:g}, {LIKE_THESE}. Whoever is chosen as the best of "
        "several was also the luckiest, so look at the intervals, and confirm."
    )
    if unknown := unknown_words(answer):
        st.caption(as_text(unknown))
    offer_rows(answer)
    if len(rows) > 1 and answer.question.text is None:
        _show_confirm(answer)
    show_chart(
        candidates_chart(
            [each.label for each, _ in rows], [each.surface for each, _ in rows], answer.temperature
        ),
        "Speedup of every candidate: expected, or measured in short runs.", "exact", "measured",
        key="tune_candidates",
        alt="Speedup over γ, a line for each candidate",
    )  # fmt: skip


def _show_confirm(answer: Answer) -> None:
    count = min(3, len(answer.ranked))
    st.button(
        f"Confirm: race the first {count}", key="tune_confirm", on_click=race,
        args=(answer.ranked[:3], answer.question.items),
        help="They are measured for real, in stages; after each the slower half drops out.",
    )  # fmt: skip
    work = shown("tune-race", RaceJob)
    if work is not None:
        follow(work, lambda: _race_table(work))


def _race_table(work: RaceJob) -> None:
    if work.cells and not work.going and work.error is None and not work.was_stopped:
        first = work.cells[0]
        st.markdown(
            f"**Fastest when measured: {as_text(first.label)} with γ {first.gamma}**, "
            f"{RATIO.spread(first.speedup, first.low, first.high)}."
        )
    measured_table(work.cells)
