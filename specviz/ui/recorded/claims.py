"""The page Claims for people who may not test claims: verdicts, formulas and recorded results."""

from __future__ import annotations

import streamlit as st

from specviz.theory.claims import RunName
from specviz.ui.theory.claims.cards import all_claims, choose_claims, show_cards, tally
from specviz.ui.theory.claims.runs import the_claim_runs
from specviz.ui.theory.claims.theorems import show_theorems
from specviz.ui.widgets.page_parts import show_heading, show_letters, show_tabs
from specviz.ui.widgets.symbols import show_symbols


def show_claims() -> None:
    show_heading(
        "Claims, checked",
        "This page quotes sentences about speculative decoding from a guide, an overview, a "
        "README, a manual and a paper. It checks each sentence and shows the setting at which the "
        "sentence becomes true or false.",
    )
    show_tabs("claims_tab", {"Claims": _show_cards, "Theorems": _show_theorems})


def _show_cards() -> None:
    claims, runs = all_claims(), the_claim_runs()
    st.markdown(f"{len(claims)} sentences: {tally(claims)}")
    show_symbols("alpha", "gamma", "tau", "c", "v")
    shown = choose_claims(claims, frozenset())
    if shown:
        show_cards(shown, runs, _start_nothing)
    else:
        st.info("No claim has this source and this verdict. Remove one of the two filters.")
    st.caption(
        "A verdict says whether the sentence is true in all, some or none of the tested cases."
    )
    show_letters()


def _show_theorems() -> None:
    show_theorems(the_claim_runs(), _start_nothing)


def _start_nothing(_run: RunName, _card: str) -> None:
    """Do nothing: no button that starts runs is drawn."""
