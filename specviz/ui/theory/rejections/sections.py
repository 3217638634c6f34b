"""Sections of the Rejections page: controls, sentences, charts and formulas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import streamlit as st

from specviz.record.numbers import PERCENT, times
from specviz.theory.blocks import expected_accepted, token_accepted
from specviz.theory.chains import Chains, Floats, random_chains
from specviz.theory.claims.batches import batch_bias
from specviz.theory.examples import SWAPPED
from specviz.theory.rejections import (
    batch_floor,
    bernoulli_improvement,
    lower_bound,
    rejections_by_step,
    scaling,
    total_rejections,
    uniform_improvement,
)
from specviz.theory.simulated_blocks import BlockSimulator
from specviz.theory.simulation import Estimate, Simulator, lossless_rule, over_accepting_rule
from specviz.ui.theory.growing_simulations import (
    SimulationGroup,
    TextSimulator,
    progress_sentence,
    session_group,
    simulate_and_draw,
)
from specviz.ui.theory.rejections.charts import (
    MeanCurve,
    coin_improvements,
    drafts_curve,
    rejection_by_step,
    rejections_and_bound,
    running_means,
    uniform_improvements,
)
from specviz.ui.widgets.page_parts import (
    DISTANCE,
    PROBABILITIES,
    show_chart,
    show_formula,
    slider,
    whole_slider,
)
from specviz.values import Value

_TOKENS = 7  # as in the paper's figure 2
_DRAFTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_CHOICES = (2, 4, 5, 8, 16, 32)
_TEXT = 3  # first tokens of a text, whose joint distribution is computed
_BATCH = 4  # M of the rule with several drafts that is compared with the bound
_EPSILON = 0.05  # ε of the biased rule that is compared with the bound
_COINS = ((0.6, 0.5), (0.8, 0.5), (0.95, 0.5), (0.2, 0.8))  # draft, target
_RATIOS = (2.0, 8.0, 32.0)
_ONE, _BLOCK = "one draft", "block verification"
_FIGURE_3 = "Yin et al. 2024, section 3.2 and figure 3."
_POSITION = {"n": "position in the text, from 1 to T"}
_MEAN = {r"\mathbb{E}": "mean (with a subscript: the mean over texts that the target generates)"}


class Setting(Value):
    """Parameters of the simulated texts, and whether the simulation is paused."""

    seed: int
    horizon: int
    stickiness: float
    paused: bool

    @property
    def chains(self) -> Chains:
        return random_chains(self.seed, _TOKENS, self.horizon, self.stickiness)

    @property
    def chain_key(self) -> tuple[int, int, float]:
        return self.seed, self.horizon, self.stickiness


def choose_setting() -> Setting:
    with st.container(horizontal=True, vertical_alignment="bottom", key="rejections_controls"):
        seed = whole_slider(
            "Seed of the two models", 0, 100, 10, key="rejections_seed",
            hint="Draft and target are two random Markov chains over 7 tokens. Their transition "
                "matrices differ from position to position.",
        )  # fmt: skip
        horizon = whole_slider("Tokens in a text, T", 1, 100, 50, key="rejections_horizon")
        stickiness = slider(
            "Stickiness", 0.0, 1.0, 0.0, step=0.05, key="rejections_stickiness",
            hint="With more stickiness, easy text stays easy and hard text stays hard, so accepted "
                "tokens are clustered.",
        )  # fmt: skip
        paused = st.toggle("Pause the simulation", key="rejections_pause", bind="query-params")
    return Setting(seed=seed, horizon=horizon, stickiness=stickiness, paused=paused)


def rejections_sentence(chosen: Setting) -> str:
    exact, horizon = total_rejections(chosen.chains), chosen.horizon
    sticky = f", stickiness {chosen.stickiness:.2f}" if chosen.stickiness else ""
    given = f"(seed {chosen.seed}{sticky})"
    text = (
        f"A text of one token {given} has a rejection with probability **{exact:.3f}**."
        if horizon == 1
        else f"A text of {horizon} tokens {given} has **{exact:.3f}** rejections on average: "
        f"{PERCENT.shown(exact / horizon)} of its tokens."
    )
    if exact < 1e-9:
        return f"{text} The two chains are identical."
    return (
        f"{text} With free drafting and unlimited candidates per round, γ → ∞, decoding would be "
        f"{times(horizon / exact)} as fast as the target alone."
    )


def show_one_draft(chosen: Setting) -> None:
    chains = chosen.chains
    group = session_group(
        "one draft", chosen.chain_key, lambda: {_ONE: Simulator(chains, lossless_rule(chains))}
    )
    by_step = rejections_by_step(chains)
    simulate_and_draw(group, chosen.paused, lambda: _draw_one(group, by_step, chosen.paused))
    st.caption(_paper_figure_sentence())
    show_formula(
        r"\mathbb{E}[N_1] = \sum_{n=1}^{T}\mathbb{E}_{\text{target}}[d_n] \\ "
        r"d_n = \tfrac12 \sum_x |p_{\text{draft}}(x) - p_{\text{target}}(x)|",
        {
            "N_1": "rejections in a text, with one draft",
            "d_n": "distance (TV) between draft and target at position n",
            "x": "a token",
            **PROBABILITIES,
            **_POSITION,
            "T": "tokens in a text",
            **_MEAN,
        },
        "Yin et al. 2024, theorem 1. If the distance is the same at every position, this is the "
        "result of Leviathan et al. 2023.",
    )


def _draw_one(group: SimulationGroup, by_step: Floats, paused: bool) -> None:
    exact, simulation = float(by_step.sum()), group.simulations[_ONE]
    text = f"Rejections per text: **{exact:.3f}** computed exactly"
    if simulation.estimates:
        found = simulation.estimates[-1]
        st.markdown(f"{text}, **{_plus_minus(found)}** simulated in {found.count:,} texts.")
    else:
        st.markdown(f"{text}; nothing simulated yet.")
    left, right = st.columns(2, gap="medium")
    with left:
        made = running_means([MeanCurve(name=_ONE, exact=exact, estimates=simulation.estimates)])
        note = progress_sentence(group, paused)
        show_chart(made, note, "exact", "simulated", key="rejections_mean")
    with right:
        steps = {_ONE: simulation.result.rejection_chances} if simulation.result else {}
        made = rejection_by_step({_ONE: by_step}, steps)
        note = "P(reject) is the probability that a rejection occurs at this token of the text."
        show_chart(made, note, "exact", "simulated", key="rejections_steps")


def show_several_drafts(chosen: Setting) -> None:
    chains = chosen.chains
    picked = st.pills(
        "Drafts per round, M", _CHOICES, selection_mode="multi", default=[4, 5],
        key="rejections_drafts", bind="query-params",
    )  # fmt: skip
    nums: list[int] = sorted(picked)
    curve = scaling(chains, [*_DRAFTS, math.inf])
    exact = dict(zip(nums, scaling(chains, nums), strict=True)) if nums else {}
    st.markdown(f"{_drafts_sentence(exact, curve)} {_bias_sentence(chains, nums)}")
    group = session_group(
        "several",
        (chosen.chain_key, tuple(nums)),
        lambda: {f"M {num}": Simulator(chains, lossless_rule(chains, num)) for num in nums},
    )
    simulate_and_draw(
        group, chosen.paused, lambda: _draw_several(group, exact, curve, chosen.paused)
    )
    show_formula(
        r"\mathbb{E}[N_1 - N_M] = \sum_{n}\bar{\mathbb{E}}_{f}\Big[d_n^{1} -"
        r" \prod_{m=1}^{M} d_n^{m}\Big]",
        {
            "N_1,\\, N_M": "rejections in a text, with one draft and with M drafts",
            "d_n^m": "distance (TV) at position n between the draft and the residual of the target "
            "after m − 1 rejected drafts",
            **_POSITION,
            "M": "drafts per round",
            r"\mathbb{E}": "mean",
            r"\bar{\mathbb{E}}_f": "mean over the texts before position n; texts that do not "
            "end with a rejection count as 0",
        },
        "Yin et al. 2024, theorem 3 and, for M → ∞, proposition 1. The paper does not define the "
        "initial value of the recursion for f; here it is 1.",
    )
    show_formula(
        r"\mathbb{E}[N_M] \ge \tfrac{1}{2}\big(\mathbb{E}[N_1] - 1\big)",
        {
            "N_1,\\, N_M": "rejections in a text, with one draft and with M drafts",
            r"\mathbb{E}": "mean",
        },
        "A lower bound, derived here from the fact that only the first token after a rejection has "
        "M candidates.",
    )


def _draw_several(
    group: SimulationGroup, exact: Mapping[int, float], curve: Floats, paused: bool
) -> None:
    left, right = st.columns(2, gap="medium")
    with left:
        if exact:
            curves = [
                MeanCurve(name=name, exact=value, estimates=group.simulations[name].estimates)
                for name, value in ((f"M {num}", value) for num, value in exact.items())
            ]
            note = f"{progress_sentence(group, paused)} Dashed: exact."
            show_chart(running_means(curves), note, "exact", "simulated", key="rejections_batch")
        else:
            st.info("Choose at least one number of drafts to simulate.")
    with right:
        found = group.estimates()
        made = drafts_curve(
            _DRAFTS,
            curve[:-1].tolist(),
            limit=float(curve[-1]),
            floor=batch_floor(float(curve[0])),
            simulated={num: found[f"M {num}"] for num in exact if f"M {num}" in found},
        )
        note = "Only the first token of a round has M candidates, so the gain is limited."
        show_chart(made, note, "exact", "simulated", key="rejections_curve")


def show_one_place() -> None:
    with st.container(horizontal=True, key="rejections_place"):
        draft = slider("Heads under the draft, u", 0.0, 1.0, 0.9, step=0.05, key="rejections_u")
        target = slider("Heads under the target, w", 0.0, 1.0, 0.5, step=0.05, key="rejections_v")
        ratio = slider("Ratio of vocabularies, r", 1.0, 64.0, 4.0, step=0.5, key="rejections_r")
    coins, uniform = bernoulli_improvement(draft, target, 4), uniform_improvement(ratio, 4)
    as_many = "as many tokens as" if ratio == 1 else f"{ratio:g} times as many tokens as"
    st.markdown(
        "With four drafts instead of one, a rejection is less likely. If both models toss a coin, "
        f"the probability of a rejection is {abs(draft - target):.3f} with one draft, and lower by "
        f"**{coins:.3f}** with four. If both models are uniform and the draft has {as_many} the "
        f"target, the probability is {1 - 1 / ratio:.3f} with one draft, and lower by "
        f"**{uniform:.3f}** with four."
    )
    left, right = st.columns(2, gap="medium")
    with left:
        made = coin_improvements(list(dict.fromkeys([(draft, target), *_COINS])))
        show_chart(
            made,
            "Draft and target are coins (two tokens). The first curve uses the sliders' values.",
            "exact",
            key="rejections_coins",
        )
    with right:
        made = uniform_improvements(list(dict.fromkeys([ratio, *_RATIOS])))
        show_chart(
            made,
            "Draft and target are uniform. The first curve uses the slider's value.",
            "exact",
            key="rejections_uniform",
        )
    show_formula(
        r"\Delta_{\text{coins}} = |u - w|\,\big(1 - u^{M-1}\big)",
        {
            r"\Delta": "decrease of P(reject)",
            "M": "drafts",
            "u, w": "probability of heads under draft and target; if u < w, replace u and w by the "
            "probabilities of tails, 1 − u and 1 − w (derived here)",
        },
        _FIGURE_3,
    )
    show_formula(
        r"\Delta_{\text{uniform}} = \big(1 - \tfrac1r\big) - \big(1 - \tfrac1r\big)^{M}",
        {
            r"\Delta": "decrease of P(reject)",
            "M": "drafts",
            "r": "the draft's number of tokens / the target's number of tokens",
        },
        _FIGURE_3,
    )


def show_bound(chosen: Setting) -> None:
    chains, bound = chosen.chains, lower_bound(chosen.chains)
    group = session_group("bound", chosen.chain_key, lambda: _rules(chains), narrow=0.005)
    simulate_and_draw(group, chosen.paused, lambda: _draw_bound(group, bound, chosen.paused))
    pair = SWAPPED.draft, SWAPPED.target
    st.markdown(
        "Theorem 2 does not cover the rules to the left of the line: rules with **several "
        "drafts**, rules that **look at later tokens**, and **biased** rules. An exact example: "
        "with draft (⅔, ⅓), target (⅓, ⅔) and γ = 2, token-by-token verification accepts "
        f"{token_accepted(*pair, 2):.4f} candidates on average, and block verification accepts "
        f"{expected_accepted(*pair, 2):.4f}. See *Whole blocks* on the page *Bias or speed*."
    )
    show_formula(
        r"\inf_{A \in \mathcal{F}} \mathbb{E}[N^{A}] \ge"
        r"\sum_{n}\mathbb{E}_{\text{target}}[d_n]",
        {
            r"\mathcal{F}": "the unbiased rules that judge a single draft, token by token",
            "A": "a rule",
            "N^A": "rejections in a text under rule A",
            "d_n": f"{DISTANCE}, at position n",
            **_POSITION,
            **_MEAN,
        },
        r"Yin et al. 2024, theorem 2. By corollary 1, each of these rules accepts a token with "
        r"probability at most $\min(1, p_{\text{target}}/p_{\text{draft}})$. Block verification: "
        "Sun et al. 2024.",
    )


def _draw_bound(group: SimulationGroup, bound: float, paused: bool) -> None:
    found = group.estimates()
    block = found.get(_BLOCK)
    rejects = f": it has {_plus_minus(block)} rejections (simulated)" if block else ""
    st.markdown(
        "A lossless rule that judges a single draft, token by token, has at least "
        f"**{bound:.3f}** rejections per text. Block verification is also lossless. It judges "
        f"several tokens jointly, so the bound does not apply to it{rejects}."
    )
    made = rejections_and_bound(bound, found)
    show_chart(made, progress_sentence(group, paused), "exact", "simulated", key="rejections_bound")


def _rules(chains: Chains) -> dict[str, TextSimulator]:
    over = over_accepting_rule(chains, _EPSILON, "residual")
    return {
        "token by token": Simulator(chains, lossless_rule(chains)),
        _BLOCK: BlockSimulator(chains),
        f"{_BATCH} drafts": Simulator(chains, lossless_rule(chains, _BATCH)),
        f"ε {_EPSILON} (biased)": Simulator(chains, over),
    }


def _drafts_sentence(exact: Mapping[int, float], curve: Floats) -> str:
    left = [f"**{count:.3f}** with {num} drafts" for num, count in exact.items()]
    remain = "".join(f"{each}, " for each in left)
    return (
        f"On average, a text has {curve[0]:.3f} rejections with one draft, {remain}"
        f"and at least {curve[-1]:.3f} with any number of drafts."
    )


def _bias_sentence(chains: Chains, nums: Sequence[int]) -> str:
    """State how much several drafts change the joint distribution of the first tokens."""
    length = min(_TEXT, chains.horizon)
    worst = max(batch_bias(chains, num, length=length) for num in nums or _CHOICES[:1])
    first = "first token" if length == 1 else f"first {length} tokens"
    return (
        f"Several drafts do not bias the text: the distribution of its {first} differs from the "
        f"target's only by rounding ({worst:.0e})."
    )


def _plus_minus(found: Estimate) -> str:
    half = 1.96 * found.standard_error
    return f"{found.mean:.3f} ± {half:.3f}" if math.isfinite(half) else f"{found.mean:.3f}"


def _paper_figure_sentence() -> str:
    ours = total_rejections(random_chains(10, _TOKENS, 50))
    return (
        "Yin et al. 2024, figure 2, reports 16.41 rejections for a vocabulary of 7 tokens, texts "
        "of T = 50 tokens and seed 10. The paper does not state how its chains are drawn. Here, "
        "each row of a transition matrix consists of normalised uniform numbers, and seed 10 gives "
        f"{ours:.3f} rejections. These chains may differ from those of the paper."
    )
