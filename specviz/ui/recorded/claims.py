"""The page Claims for people who may not test claims: verdicts, formulas and recorded results."""

from __future__ import annotations

from specviz.theory.claims import RunName
from specviz.ui.theory.claims.cards import show_chosen_claims, show_claims_heading
from specviz.ui.theory.claims.runs import the_claim_runs
from specviz.ui.theory.claims.theorems import show_theorems
from specviz.ui.widgets.page_parts import show_tabs


def show_claims() -> None:
    show_claims_heading()
    show_tabs("claims_tab", {"Claims": _show_cards, "Theorems": _show_theorems})


def _show_cards() -> None:
    show_chosen_claims(the_claim_runs(), _start_nothing, frozenset())


def _show_theorems() -> None:
    show_theorems(the_claim_runs(), _start_nothing)


def _start_nothing(_run: RunName, _card: str) -> None:
    """Do nothing: no button that starts runs is drawn."""
