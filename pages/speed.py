"""Speed: what acceptance, the two costs and γ are worth in time."""

import streamlit as st

from specviz.ui.session.history import session_history
from specviz.ui.shell import require_shell
from specviz.ui.theory.speed.sections import (
    choose_setting,
    show_map,
    show_over_gamma,
    show_papers,
    show_recursion,
    speed_sentence,
)
from specviz.ui.theory.speed.speedup_points import session_runs
from specviz.ui.widgets.page_parts import show_heading

require_shell()

show_heading("Speed", "Four numbers decide whether drafting pays, and how many tokens to draft.")
chosen = choose_setting()
st.markdown(speed_sentence(chosen))

over_gamma, over_costs, recursion, papers = st.tabs(
    ["Over γ", "Over α and c", "Tokens a round", "What papers measured"],
    key="speed_tab",
    bind="query-params",
)
if over_gamma.open:
    with over_gamma:
        show_over_gamma(chosen)
if over_costs.open:
    with over_costs:
        show_map(chosen, session_runs(session_history()))
if recursion.open:
    with recursion:
        show_recursion(chosen)
if papers.open:
    with papers:
        show_papers()
st.caption(
    "Papers disagree on letters: Yin et al. 2024 write p for the draft and q for the target, "
    "Leviathan et al. 2023 the other way round. Here they are called draft and target."
)
