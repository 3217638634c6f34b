"""Speed: the speedup as a function of acceptance, the costs c and v, and γ."""

from functools import partial

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
from specviz.ui.widgets.symbols import show_sentence

require_shell()

show_heading(
    "Speed",
    "Four numbers decide whether drafting pays: how often a candidate is accepted, what a draft "
    "step costs, what a verification costs, and how many candidates a round has.",
)
chosen = choose_setting()
show_sentence(speed_sentence(chosen))

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
