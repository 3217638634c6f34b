"""Theorems 1, 2 and 5 of Yin et al. 2024 on runs of the loaded pair."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from specviz.ui.theory.bias.charts import Dots, pareto_plane
from specviz.ui.theory.claims.cards import Start, show_button, show_state
from specviz.ui.theory.claims.evidence import Evidence, LossyRuns
from specviz.ui.theory.claims.runs import EPSILONS, ClaimRuns, plans_of
from specviz.ui.widgets.page_parts import DISTANCE, show_chart, show_formula
from specviz.ui.widgets.plain_text import as_text

_EVEN = 1e-4  # if the total variation is at most this, the models count as equal
_MOST_DOTS = 600


def show_theorems(runs: ClaimRuns, start: Start) -> None:
    left, right = st.columns(2)
    with left, st.container(border=True, key="claims_theorem_1"):
        _show_rejections(runs, start)
    with right, st.container(border=True, key="claims_theorem_5"):
        _show_trade(runs, start)
    found = runs.evidence("pareto")
    if found is not None:
        _show_plane(found)


def _show_rejections(runs: ClaimRuns, start: Start) -> None:
    st.subheader("Theorems 1 and 2: number of rejections", anchor=False)
    show_formula(
        r"\mathbb{E}[N] = \sum_n \mathbb{E}[d_n]",
        {
            "N": "rejections in a text",
            r"\mathbb{E}": "mean",
            "n": "a tested position",
            "d_n": f"{DISTANCE} there",
        },
        "Yin et al. 2024, theorem 1. By theorem 2, no unbiased rule that judges a single "
        "draft, token by token, has fewer rejections than this on average.",
    )
    st.caption(
        f"{len(plans_of('rejections'))} runs at temperature 1. z is observed minus expected "
        "rejections, in standard deviations of the sampling noise; |z| above 4 is not noise."
    )
    show_button("Run theorems 1 and 2", "rejections", "theorem-1", runs, start)
    show_state("rejections", "theorem-1", runs)


def _show_trade(runs: ClaimRuns, start: Start) -> None:
    st.subheader("Theorem 5: rejections against bias", anchor=False)
    show_formula(
        r"\mathrm{P}(\mathrm{reject}) + \mathrm{bias} = d",
        {
            r"\mathrm{P}(\mathrm{reject})": "probability of a rejection",
            r"\mathrm{bias}": "distance between the emitted distribution and the target’s",
            "d": DISTANCE,
        },
        r"Yin et al. 2024, theorem 5, for acceptance with "
        r"$\min(1, (p_{\text{target}} + \varepsilon)/p_{\text{draft}})$ and a recovered token from "
        "the residual (OPT). A recovered token from the target itself (UNO) increases the bias.",
    )
    epsilons = ", ".join(f"{each:g}" for each in EPSILONS)
    st.caption(f"{len(plans_of('pareto'))} runs at temperature 1: ε {epsilons}, OPT and UNO.")
    show_button("Run theorem 5", "pareto", "theorem-5", runs, start)
    show_state("pareto", "theorem-5", runs)


def _show_plane(found: Evidence) -> None:
    st.subheader("Tested tokens on the Pareto plane", anchor=False)
    st.table(
        {
            "": [as_text(each.label) for each in found.lossy],
            "P(reject)": [f"{each.plane.mean_reject:.4f}" for each in found.lossy],
            "bias": [f"{each.plane.mean_bias:.4f}" for each in found.lossy],
            "sum": [f"{each.plane.mean_reject + each.plane.mean_bias:.4f}" for each in found.lossy],
            "distance": [f"{each.plane.mean_distance:.4f}" for each in found.lossy],
            "bias, counted ± s.e.": [
                f"{each.shown.measured:.4f} ± {each.shown.standard_error:.4f}"
                for each in found.lossy
            ],
        }
    )
    labels = {each.label: each for each in found.lossy}
    chosen = st.segmented_control(
        "Rule",
        list(labels),
        default=next(iter(labels)),
        key="claims_rule",
        required=True,
        format_func=as_text,
    )
    lossy = labels[chosen]
    show_chart(
        plane_of(lossy),
        f"{as_text(lossy.label)} on {as_text(found.pair)}: {dots_sentence(lossy)}. Both axes are "
        "divided by the distance between the models, which varies from token to token.",
        "exact",
        "measured",
        key="claims_plane",
    )


def dots_sentence(lossy: LossyRuns) -> str:
    """Describe how many tested tokens are drawn as dots, and why some are not drawn."""
    apart, tested = int((lossy.plane.distance > _EVEN).sum()), lossy.plane.num_tested
    drawn = min(apart, _MOST_DOTS)
    first = "the first " if drawn < apart else ""
    where = f" of {apart:,}" if drawn < apart else ""
    even = (
        f"; {tested - apart:,} tokens have no dot, because the models differ there by less than "
        f"{_EVEN:g}"
        if apart < tested
        else ""
    )
    return (
        f"one dot per token on which the models differ: {first}{drawn:,}{where} tokens, out of "
        f"{tested:,} tested tokens{even}"
    )


def plane_of(lossy: LossyRuns) -> go.Figure:
    """Draw a dot for each token, with P(reject) and bias as its coordinates.

    Only the first few tokens at which the models differ have dots. Both values are divided by the
    distance between the models at the token.
    """
    plane = lossy.plane
    apart = np.flatnonzero(plane.distance > _EVEN)[:_MOST_DOTS]
    distance = plane.distance[apart]
    rejects, biases = plane.reject[apart] / distance, plane.bias[apart] / distance
    tooltips = [
        f"P(reject) {plane.reject[at]:.3f}, bias {plane.bias[at]:.3f}, "
        f"distance {plane.distance[at]:.3f}"
        for at in apart
    ]
    dots = Dots(reject=rejects.tolist(), bias=biases.tolist(), tooltips=tooltips)
    return pareto_plane(1.0, dots=dots, unit=" ÷ distance")
