"""The four figures a person asks for, each with its definition."""

from __future__ import annotations

import streamlit as st

from specviz.analysis import Metrics


def show_figures(figures: Metrics) -> None:
    cells = (
        ("Accepted, α", figures.alpha_observed, "{:.2f}", "Accepted / tested candidates."),
        ("Tokens a round, τ", figures.tau, "{:.2f}", "Tokens emitted / whole rounds."),
        (
            "Speedup",
            figures.speedup_observed,
            "{:.2f} ×",
            "Time of the target alone along the same words / speculative time.",
        ),
        ("Tokens a second", figures.tokens_per_second, "{:.0f}", "Over whole rounds, no prefill."),
    )
    for column, (label, value, shape, definition) in zip(
        st.columns(len(cells)), cells, strict=True
    ):
        shown = "–" if value is None else shape.format(value)
        column.metric(label, shown, help=definition, border=True)
