"""Claims: quoted sentences about speculative decoding, and whether they are true."""

import streamlit as st

from specviz.theory.claims import RunName
from specviz.ui.session.history import session_history
from specviz.ui.session.worker import the_worker, this_tab
from specviz.ui.shell import require_shell
from specviz.ui.theory.claims.cards import show_chosen_claims, show_claims_heading
from specviz.ui.theory.claims.runs import forget_other_pairs, start_or_refuse, the_claim_runs
from specviz.ui.theory.claims.theorems import show_theorems
from specviz.ui.widgets.pair_panel import active_spec
from specviz.ui.widgets.plain_text import as_text

require_shell()

this_tab()
worker, history, runs = the_worker(), session_history(), the_claim_runs()


def start(run: RunName, card: str) -> None:
    start_or_refuse(runs, run, card, active_spec(worker.status()), history)


show_claims_heading()
spec = active_spec(worker.status())
forget_other_pairs(spec)
st.caption(
    f"Tests run on the pair of this session ({as_text(spec.title)}). If necessary, the pair is "
    "loaded first."
)
cards, theorems = st.tabs(
    ["Claims", "Theorems on the real pair"], key="claims_tab", bind="query-params"
)

with cards:
    show_chosen_claims(runs, start, runs.busy_cards)

with theorems:
    show_theorems(runs, start)
