"""Speed: the speedup as a function of acceptance, two costs and γ."""

from functools import partial

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
from specviz.ui.theory.speed.when_to_stop import show_when_to_stop
from specviz.ui.widgets.page_parts import show_heading, show_tabs

require_shell()

show_heading(
    "Speed", "Four numbers decide whether drafting pays: acceptance α, the costs c and v, and γ."
)
chosen = choose_setting()
st.markdown(speed_sentence(chosen))

show_tabs(
    "speed_tab",
    {
        "Over γ": partial(show_over_gamma, chosen),
        "Over α and c": lambda: show_map(chosen, session_runs(session_history())),
        "Tokens a round": partial(show_recursion, chosen),
        "When to stop": show_when_to_stop,
        "What papers measured": show_papers,
    },
)
st.caption(
    "Papers disagree on letters: in Yin et al. 2024, p is the draft and q the target; in Leviathan "
    "et al. 2023 they are swapped. This page says draft and target."
)
