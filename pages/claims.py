"""Claims: quoted sentences about speculative decoding, and whether they are true."""

import streamlit as st

from specviz.theory.claims import RunName
from specviz.ui.session.history import session_history
from specviz.ui.session.worker import the_worker, this_tab
from specviz.ui.shell import require_shell
from specviz.ui.theory.claims.cards import all_claims, choose_claims, show_cards, tally
from specviz.ui.theory.claims.runs import forget_other_pairs, start_or_refuse, the_claim_runs
from specviz.ui.theory.claims.theorems import show_theorems
from specviz.ui.widgets.page_parts import show_heading, show_letters
from specviz.ui.widgets.pair_panel import active_spec
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.symbols import show_symbols

require_shell()

this_tab()
worker, history, runs = the_worker(), session_history(), the_claim_runs()


def start(run: RunName, card: str) -> None:
    start_or_refuse(runs, run, card, active_spec(worker.status()), history)


show_heading(
    "Claims, checked",
    "This page quotes sentences about speculative decoding from a guide, an overview, a README, a "
    "manual and a paper. It checks each sentence and shows the setting at which the sentence "
    "becomes true or false.",
)
claims = all_claims()
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
    st.markdown(f"{len(claims)} sentences: {tally(claims)}")
    show_symbols("alpha", "gamma", "tau", "c", "v")
    shown = choose_claims(claims, runs.busy_cards)
    if shown:
        show_cards(shown, runs, start)
    else:
        st.info("No claim has this source and this verdict. Remove one of the two filters.")
    st.caption(
        "A verdict says whether the sentence is true in all, some or none of the tested cases."
    )
    show_letters()

with theorems:
    show_theorems(runs, start)
