"""The words, figures and laws of the Speed page, each part for settings it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from specviz.figures.speed import (
    expected_and_measured,
    speedup_map,
    speedup_over_gamma,
    tokens_over_gamma,
)
from specviz.theory.papers import CHINCHILLA, CHINCHILLA_SOURCE, LEVIATHAN, LEVIATHAN_SOURCE
from specviz.theory.speed import (
    accepted_from,
    best_gamma,
    break_even_alpha,
    expected_accepted,
    expected_tokens,
    operations_factor,
    oracle_speedup,
    speedup,
)
from specviz.ui.history import Shown
from specviz.ui.lesson import show_chart, show_law, slider, whole_slider
from specviz.ui.points import chinchilla_points, leviathan_points, run_points, show_point

MAX_GAMMA = 24
_MAP, _POINT = "speed_map", "speed_point"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the sliders say."""

    alpha: float
    c: float
    v: float
    gamma: int


def choose_setting() -> Setting:
    with st.container(horizontal=True, key="speed_controls"):
        alpha = slider(
            "Acceptance, α", 0.0, 1.0, 0.7, step=0.01, key="speed_alpha",
            hint="The chance that a tested candidate is accepted.",
        )  # fmt: skip
        c = slider(
            "Draft cost, c", 0.0, 1.0, 0.05, step=0.005, key="speed_c",
            hint="Time of one draft step, in steps of the target.",
        )  # fmt: skip
        v = slider(
            "Verification cost, v", 1.0, 4.0, 1.1, step=0.05, key="speed_v",
            hint="Time of one pass over γ + 1 tokens, in steps of the target. Textbooks say 1.",
        )  # fmt: skip
        gamma = whole_slider(
            "Candidates, γ", 0, MAX_GAMMA, 5, key="speed_gamma", hint="Drafted each round."
        )
    return Setting(alpha=alpha, c=c, v=v, gamma=gamma)


def speed_sentence(chosen: Setting) -> str:
    best, value = best_gamma(chosen.alpha, chosen.c, chosen.v, MAX_GAMMA)
    given = f"With α {chosen.alpha:.2f}, c {chosen.c:.3g} and v {chosen.v:.2f}"
    if best == 0:
        needed = break_even_alpha(chosen.c, chosen.v, max_gamma=MAX_GAMMA)
        when = "at no α" if needed is None else f"above α {needed:.3f}"
        return f"{given} **no γ pays**: the target alone is fastest. Drafting would pay {when}."
    here = speedup(chosen.alpha, chosen.gamma, chosen.c, chosen.v)
    told = f"{given} the best γ is **{best}: {value:.2f} times** as fast as the target alone."
    if chosen.gamma == best or f"{here:.2f}" == f"{value:.2f}":
        return told if chosen.gamma == best else f"{told} The chosen γ {chosen.gamma} is as fast."
    slower = ", slower than the target alone" if here < 1.0 else ""
    return f"{told} The chosen γ {chosen.gamma} gives {here:.2f}{slower}."


def show_over_gamma(chosen: Setting) -> None:
    show_chart(
        speedup_over_gamma(chosen.alpha, chosen.c, chosen.v, chosen.gamma, MAX_GAMMA),
        "Every candidate accepted with chance α, independently.",
        "exact",
        key="speed_over_gamma",
        alt="Speedup over the number of candidates a round, ideal and with verification paid.",
    )
    _show_key_figures(chosen)
    show_law(
        r"S = \frac{1-\alpha^{\gamma+1}}{(1-\alpha)(\gamma c + v)}",
        {
            "S": "times as fast as the target alone",
            r"\alpha": "acceptance",
            r"\gamma": "candidates a round",
            "c": "cost of a draft step",
            "v": "cost of a verification, both in target steps",
        },
        "Leviathan et al. 2023, theorem 3.8, where v is 1.",
    )


def _show_key_figures(chosen: Setting) -> None:
    alpha, c, v, gamma = chosen.alpha, chosen.c, chosen.v, chosen.gamma
    needed = break_even_alpha(c, v, max_gamma=MAX_GAMMA)
    at_gamma = break_even_alpha(c, v, gamma=gamma) if gamma else None
    for_gamma = f" At γ {gamma}: {'no α' if at_gamma is None else f'{at_gamma:.3f}'}."
    with st.container(horizontal=True):
        st.metric(
            "Tokens a round, τ", f"{expected_tokens(alpha, gamma):.2f}", border=True,
            help="Accepted candidates and the one token the target adds.",
        )  # fmt: skip
        st.metric(
            "Breaks even at α", "never" if needed is None else f"{needed:.3f}", border=True,
            help=f"The least α at which some γ pays. With v 1 it is c.{for_gamma}",
        )  # fmt: skip
        st.metric(
            "With an oracle", f"{oracle_speedup(alpha, c, v):.2f} ×", border=True,
            help="If each round knew where to stop: 1 / ((1 − α) v + c α). No γ beats it.",
        )  # fmt: skip
        st.metric(
            "Arithmetic", f"{operations_factor(alpha, gamma, c):.2f} ×", border=True,
            help="Operations a token, times the target alone's: time is bought with arithmetic. "
            "A draft step's share of a target step's operations is taken to be c "
            "(Leviathan et al. 2023, theorem 3.11).",
        )  # fmt: skip


def show_map(chosen: Setting, runs: Sequence[Shown]) -> None:
    papers, own = [*leviathan_points(), *chinchilla_points()], run_points(runs)
    show_chart(
        speedup_map(chosen.v, (chosen.alpha, chosen.c), papers, own),
        f"The greatest speedup of any γ up to 40, at v {chosen.v:.2f}. Points stand at their own "
        "α and c; click one to open it.",
        "exact",
        "measured",
        "reported",
        key=_MAP,
        on_select=_open_clicked,
        selection_mode="points",
        alt="Map of the best speedup over the cost of a draft step and acceptance.",
    )
    labels = {each.run_id: each.label for each in (*own, *papers)}
    if st.session_state.get(_POINT) not in labels:
        st.session_state[_POINT] = None  # a run that the session no longer keeps
    point = st.selectbox(
        "Point",
        list(labels),
        index=None,
        format_func=lambda each: labels[each],
        key=_POINT,
        placeholder="none chosen",
    )
    show_point(point, runs)
    if not own:
        st.caption("No run of this session has been timed against the target alone yet.")


def _open_clicked() -> None:
    """The first of the clicked points that stands for something becomes the chosen one."""
    for each in st.session_state[_MAP]["selection"]["points"]:
        data = each.get("customdata") or []
        if len(data) and isinstance(data[0], str):
            st.session_state[_POINT] = data[0]
            return


def show_recursion(chosen: Setting) -> None:
    alpha, gamma = chosen.alpha, chosen.gamma
    show_chart(
        tokens_over_gamma(alpha, gamma, MAX_GAMMA),
        f"At γ {gamma} a round yields {expected_tokens(alpha, gamma):.3f} tokens.",
        "exact",
        key="speed_tokens",
        alt="Tokens a round over the number of candidates.",
    )
    show_law(
        r"E_k = \alpha\,(1 + E_{k+1}),\quad E_\gamma = 0",
        {"E_k": "candidates still to be accepted once k were", r"\alpha": "acceptance"},
        "v2rockets/sd_optimization, where α is called P and γ N.",
    )
    show_law(
        r"E_0 = \frac{\alpha\,(1-\alpha^{\gamma})}{1-\alpha},\quad \tau = E_0 + 1",
        {r"\tau": "tokens a round", r"\gamma": "candidates a round"},
        "The recursion solved; τ is Leviathan et al. 2023, equation 1.",
    )
    table = pd.DataFrame(
        {
            "k": range(gamma + 1),
            "recursion": accepted_from(alpha, gamma),
            "closed form": [expected_accepted(alpha, gamma - k) for k in range(gamma + 1)],
        }
    )
    st.dataframe(
        table,
        hide_index=True,
        key="speed_recursion",
        height="auto",
        alt="Candidates still to be accepted, by recursion and by the closed form.",
    )


def show_papers() -> None:
    show_chart(
        expected_and_measured(leviathan_points()),
        f"{LEVIATHAN_SOURCE}. Above the line the pair was faster than the law with v 1 says.",
        "reported",
        key="speed_papers",
        alt="Measured speedups of the paper over those it expected.",
    )
    st.dataframe(
        pd.DataFrame(
            {
                "task": [each.task for each in LEVIATHAN],
                "draft": [each.draft for each in LEVIATHAN],
                "T": [each.temperature for each in LEVIATHAN],
                "γ": [each.gamma for each in LEVIATHAN],
                "α": [each.alpha for each in LEVIATHAN],
                "c": [each.c for each in LEVIATHAN],
                "formula here": [speedup(each.alpha, each.gamma, each.c) for each in LEVIATHAN],
                "expected": [each.expected for each in LEVIATHAN],
                "measured": [each.measured for each in LEVIATHAN],
            }
        ),
        hide_index=True,
        key="speed_leviathan",
        alt=LEVIATHAN_SOURCE,
    )
    st.caption(f":gray-badge[reported] {CHINCHILLA_SOURCE}; α is implied by the law, γ 4.")
    st.dataframe(
        pd.DataFrame(
            {
                "task": [each.task for each in CHINCHILLA],
                "ms a token": [each.milliseconds for each in CHINCHILLA],
                "measured": [each.speedup for each in CHINCHILLA],
                "α, implied": [each.alpha for each in chinchilla_points()],
            }
        ),
        hide_index=True,
        key="speed_chinchilla",
        alt=CHINCHILLA_SOURCE,
    )
