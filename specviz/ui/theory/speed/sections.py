"""Sections of the Speed page: controls, sentences, charts and formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from specviz.figures.symbols import names_in_formula
from specviz.record.limits import MAX_GAMMA
from specviz.record.numbers import PROBABILITY, RATIO, STEPS, TOKENS, times
from specviz.theory.papers import (
    CHINCHILLA,
    CHINCHILLA_SOURCE,
    LEVIATHAN,
    LEVIATHAN_SOURCE,
    SPEC_BENCH,
    SPEC_BENCH_SOURCE,
)
from specviz.theory.speed import (
    accepted_from,
    best_gamma,
    break_even_alpha,
    expected_accepted,
    expected_tokens,
    no_gamma_is_best,
    operations_factor,
    oracle_speedup,
    speedup,
)
from specviz.ui.session.history import ShownRun
from specviz.ui.theory.speed.charts import (
    expected_and_measured,
    reported_by_task,
    speedup_map,
    speedup_over_gamma,
    tokens_over_gamma,
)
from specviz.ui.theory.speed.speedup_points import (
    chinchilla_points,
    leviathan_points,
    run_points,
    show_point,
)
from specviz.ui.widgets.page_parts import show_chart, show_formula, slider, whole_slider
from specviz.values import Value

_AXIS = 24  # γ at which the axes end, unless a marked γ is larger
_MAP, _POINT = "speed_map", "speed_point"


class Setting(Value):
    """The chosen α, γ and costs."""

    alpha: float
    c: float
    v: float
    gamma: int


def choose_setting() -> Setting:
    with st.container(horizontal=True, key="speed_controls"):
        alpha = slider(
            "Acceptance, α", 0.0, 1.0, 0.7, step=0.01, key="speed_alpha", form="%.3f",
            hint="Probability that a tested candidate is accepted.",
        )  # fmt: skip
        c = slider(
            "Draft cost, c", 0.0, 1.0, 0.05, step=0.001, key="speed_c", form="%.3f",
            hint="Time of a draft step / time of a target step.",
        )  # fmt: skip
        v = slider(
            "Verification cost, v", 1.0, 4.0, 1.1, step=0.05, key="speed_v",
            hint="Time of a target pass over γ + 1 tokens / time of a target step. Textbooks set "
            "it to 1.",
        )  # fmt: skip
        gamma = whole_slider(
            "Candidates per round, γ",
            0,
            MAX_GAMMA,
            5,
            key="speed_gamma",
            hint="Number of tokens drafted per round.",
        )
    return Setting(alpha=alpha, c=c, v=v, gamma=gamma)


def speed_sentence(chosen: Setting) -> str:
    if no_gamma_is_best(chosen.alpha, chosen.c, chosen.v):
        return _no_best_gamma_sentence(chosen)
    best, value = best_gamma(chosen.alpha, chosen.c, chosen.v, MAX_GAMMA)
    given = _given_text(chosen)
    if best == 0:
        needed = _pays_above(chosen)
        pays = (
            "would not pay at any α"
            if needed is None or math.isclose(needed, 1)
            else f"would pay above α {PROBABILITY.bare(needed)}"
        )
        return f"{given} **no γ pays**: the target alone is fastest. Drafting {pays}."
    here = speedup(chosen.alpha, chosen.gamma, chosen.c, chosen.v)
    text = (
        f"{given} the best number γ of candidates per round is **{best}**: decoding is "
        f"**{times(value)}** as fast as with the target alone."
    )
    if speedup(chosen.alpha, MAX_GAMMA + 1, chosen.c, chosen.v) > value:
        text = f"{text} The search ends at γ {MAX_GAMMA}; a longer draft would be faster."
    if chosen.gamma == best or RATIO.bare(here) == RATIO.bare(value):
        return (
            text
            if chosen.gamma == best
            else f"{text} Your γ, {chosen.gamma}, gives the same speedup after rounding."
        )
    return f"{text} Your γ, {chosen.gamma}, gives {RATIO.bare(here)}{_compared_with_one(here)}."


def _given_text(chosen: Setting) -> str:
    return (
        f"With acceptance rate α {chosen.alpha:.3g}, draft cost c {chosen.c:.3g} and verification "
        f"cost v {STEPS.bare(chosen.v)},"
    )


def _pays_above(chosen: Setting) -> float | None:
    """Return the α above which speculation is faster than the target alone at some γ.

    The result is None if there is no such α.
    """
    needed = break_even_alpha(chosen.c, chosen.v, max_gamma=MAX_GAMMA)
    return None if needed is None or needed >= 1.0 else needed


def _compared_with_one(speed: float) -> str:
    """Return the end of a sentence on a speedup: how it compares with 1, or "" if it is above 1."""
    if RATIO.bare(speed) == RATIO.bare(1):
        return ", as fast as the target alone"
    return ", slower than the target alone" if speed < 1.0 else ""


def _no_best_gamma_sentence(chosen: Setting) -> str:
    """Describe settings with which every larger γ is faster, and the limit of the speedup."""
    here = speedup(chosen.alpha, chosen.gamma, chosen.c, chosen.v)
    why = "drafting costs nothing" if chosen.c == 0 else "nothing is ever rejected"
    limit = _times(oracle_speedup(chosen.alpha, chosen.c, chosen.v))
    return (
        f"{_given_text(chosen)} {why}, so **no γ is best**: the speedup rises with γ, the number "
        f"of candidates per round, towards **{limit}**. Your γ, {chosen.gamma}, gives "
        f"{times(here)}."
    )


def _times(value: float) -> str:
    return "∞" if math.isinf(value) else RATIO.shown(value)


def _axis_end(chosen: Setting) -> int:
    """Return the greatest γ on the x axis of the charts.

    The axis contains the chosen γ and, if there is one, the best γ.
    """
    best = 0
    if not no_gamma_is_best(chosen.alpha, chosen.c, chosen.v):
        best, _ = best_gamma(chosen.alpha, chosen.c, chosen.v, MAX_GAMMA)
    return min(MAX_GAMMA, max(_AXIS, best + best // 4, chosen.gamma))


def show_over_gamma(chosen: Setting) -> None:
    show_chart(
        speedup_over_gamma(chosen.alpha, chosen.c, chosen.v, chosen.gamma, _axis_end(chosen)),
        "Each candidate is accepted with probability α, independently of the others.",
        "exact",
        key="speed_over_gamma",
        alt="Speedup at each number of candidates per round: ideal, and with the cost of "
        "verification.",
    )
    _show_key_figures(chosen)
    show_formula(
        r"S = \frac{1-\alpha^{\gamma+1}}{(1-\alpha)(\gamma c + v)}",
        {
            "S": "speedup: decoding is S times as fast as with the target alone",
            **names_in_formula("alpha", "gamma", "c", "v"),
        },
        "Leviathan et al. 2023, theorem 3.8, where v is 1. Costs are in target steps.",
    )
    show_formula(
        r"S_{\text{oracle}} = \frac{1}{(1-\alpha)\,v + \alpha c}",
        {
            r"S_{\text{oracle}}": "speedup if each round drafted exactly the candidates that will "
            "be accepted",
            **names_in_formula("alpha", "c", "v"),
        },
        "The expected number of tokens per target pass is from Leviathan et al. 2023, section 3.5; "
        "the time per token is derived here. If drafting is free or nothing is rejected, S "
        "approaches the oracle's speedup as γ grows.",
    )
    show_formula(
        r"\frac{\text{operations}}{\text{token}} = "
        r"\frac{(1-\alpha)(\gamma \hat c + \gamma + 1)}{1-\alpha^{\gamma+1}}",
        {
            r"\hat c": "operations of a draft step / operations of a target step, here set to c",
            **names_in_formula("alpha", "gamma"),
        },
        "Leviathan et al. 2023, theorem 3.11. The unit is the number of operations that the target "
        "alone needs per token.",
    )


def _show_key_figures(chosen: Setting) -> None:
    alpha, c, v, gamma = chosen.alpha, chosen.c, chosen.v, chosen.gamma
    needed = _pays_above(chosen)
    at_gamma = break_even_alpha(c, v, gamma=gamma) if gamma else None
    for_gamma = (
        f" No α suffices at γ {gamma}."
        if at_gamma is None
        else f" At γ {gamma}, the break-even α is {PROBABILITY.bare(at_gamma)}."
    )
    with st.container(horizontal=True):
        st.metric(
            "Tokens per round, τ", f"{TOKENS.bare(expected_tokens(alpha, gamma))}", border=True,
            help="Accepted candidates plus the recovered or bonus token.",
        )  # fmt: skip
        st.metric(
            "Breaks even at α", "never" if needed is None else PROBABILITY.bare(needed),
            border=True,
            help="Above this α, some γ is faster than the target alone. With v = 1, this α equals "
            f"c.{for_gamma}",
        )  # fmt: skip
        st.metric(
            "With an oracle", _times(oracle_speedup(alpha, c, v)), border=True,
            help="Speedup if each round drafted exactly the candidates that will be accepted. No γ "
            "is faster; the formula is below.",
        )  # fmt: skip
        st.metric(
            "Arithmetic", RATIO.shown(operations_factor(alpha, gamma, c)), border=True,
            help="Arithmetic operations per token, as a multiple of the target alone. A draft step "
            "is assumed to take c times the operations of a target step. The formula is below.",
        )  # fmt: skip


def show_map(chosen: Setting, runs: Sequence[ShownRun]) -> None:
    papers, own = [*leviathan_points(), *chinchilla_points()], run_points(runs)
    show_chart(
        speedup_map(chosen.v, (chosen.alpha, chosen.c), papers, own, MAX_GAMMA),
        f"Greatest speedup of any γ up to {MAX_GAMMA}, at v {STEPS.bare(chosen.v)}. Points are "
        "measured speedups; points out of range are at the edge. Click a point to see its figures.",
        "exact",
        "measured",
        "reported",
        key=_MAP,
        on_select=_open_clicked,
        selection_mode="points",
        alt="Map of the best speedup by acceptance and draft cost.",
    )
    labels = {each.run_id: each.label for each in (*own, *papers)}
    if st.session_state.get(_POINT) not in labels:
        st.session_state[_POINT] = None  # its run is no longer in the session
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
    """Select the first clicked point that has details. The page then shows these details."""
    for each in st.session_state[_MAP]["selection"]["points"]:
        data = each.get("customdata") or []
        if len(data) and isinstance(data[0], str):
            st.session_state[_POINT] = data[0]
            return


def show_recursion(chosen: Setting) -> None:
    alpha, gamma = chosen.alpha, chosen.gamma
    show_chart(
        tokens_over_gamma(alpha, gamma, max(_AXIS, gamma)),
        f"At γ {gamma}, a round yields {TOKENS.bare(expected_tokens(alpha, gamma))} tokens on "
        "average.",
        "exact",
        key="speed_tokens",
        alt="Tokens per round at each number of candidates.",
    )
    show_formula(
        r"E_k = \alpha\,(1 + E_{k+1}),\quad E_\gamma = 0",
        {
            "E_k": "expected number of further candidates accepted, once k are accepted",
            **names_in_formula("alpha", "gamma"),
        },
        "v2rockets/sd_optimization, which writes P for α and N for γ.",
    )
    show_formula(
        r"E_0 = \frac{\alpha\,(1-\alpha^{\gamma})}{1-\alpha},\quad \tau = E_0 + 1",
        {
            "E_0": "candidates accepted per round",
            **names_in_formula("alpha", "tau", "gamma"),
        },
        "The solution of the recursion; τ is Leviathan et al. 2023, equation 1.",
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
        alt="Further candidates accepted, by the recursion and by the closed form.",
    )


def show_papers() -> None:
    show_chart(
        expected_and_measured(leviathan_points()),
        f"{LEVIATHAN_SOURCE}. Pairs above the line were faster than the formula with v = 1 "
        "predicts.",
        "reported",
        key="speed_papers",
        alt="A point per pair of the paper: the expected and the measured speedup.",
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
        height="content",
        column_config={
            name: st.column_config.NumberColumn(format="%.2f")
            for name in ("α", "c", "formula here")
        },
        key="speed_leviathan",
        alt=LEVIATHAN_SOURCE,
    )
    st.caption(
        f":gray-badge[reported] {CHINCHILLA_SOURCE}; γ is 4, and α is computed from the speedup."
    )
    st.dataframe(
        pd.DataFrame(
            {
                "task": [each.task for each in CHINCHILLA],
                "ms per token": [each.milliseconds for each in CHINCHILLA],
                "measured": [each.speedup for each in CHINCHILLA],
                "α, implied": [each.alpha for each in chinchilla_points()],
            }
        ),
        hide_index=True,
        key="speed_chinchilla",
        alt=CHINCHILLA_SOURCE,
    )
    show_chart(
        reported_by_task(SPEC_BENCH),
        f"{SPEC_BENCH_SOURCE}. Which task gains most depends on the drafter. For conversation, no "
        "result with prompt lookup is reported.",
        "reported",
        key="speed_tasks",
        alt="Reported speedups by task, for a draft model and for prompt lookup.",
    )
