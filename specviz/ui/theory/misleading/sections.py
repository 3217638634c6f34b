"""Sections of the page "When the formula misleads": controls, sentences, charts, formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import streamlit as st

from specviz.errors import SpecvizError
from specviz.figures.symbols import names_in_formula
from specviz.record.numbers import PROBABILITY, SIZE, TOKENS
from specviz.theory.clustering import StickyText, tokens_if_rounds_differ, tokens_per_round
from specviz.theory.estimates import (
    alpha_from_drafted,
    alpha_from_tested,
    drafted_share,
    hoeffding_half_width,
    wilson_interval,
)
from specviz.theory.roofline import (
    DRAFT_HALF_B,
    GPUS,
    TARGET_8B,
    Gpu,
    Model,
    Serving,
    largest_batch,
    sized,
)
from specviz.theory.runtime import rounds_distributions
from specviz.theory.speed import expected_tokens
from specviz.theory.temperature import best_draft_temperature, overlap
from specviz.ui.session.history import ShownRun
from specviz.ui.theory.misleading.charts import (
    AlphaEstimate,
    alpha_estimates,
    alpha_over_temperature,
    bytes_a_pass,
    mean_and_tail,
    over_batch,
    rounds_spread,
    tokens_over_stickiness,
)
from specviz.ui.theory.misleading.sentences import (
    batch_sentence,
    best_gammas_sentence,
    compared,
    fewer,
    tail_sentence,
)
from specviz.ui.theory.speed.speedup_points import run_name
from specviz.ui.widgets.page_parts import show_chart, show_formula, slider, whole_slider
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.symbols import show_sentence

_CONTEXTS = (1024, 4096, 16384, 65536)
_TAIL_GAMMAS = 16
# The distributions of draft and target over five tokens, at temperature 1.
_PAIRS = {
    "One favourite": (
        (0.40, 0.30, 0.15, 0.10, 0.05),
        (0.60, 0.15, 0.10, 0.10, 0.05),
    ),
    "Two favourites": (
        (0.50, 0.20, 0.15, 0.10, 0.05),
        (0.25, 0.30, 0.10, 0.25, 0.10),
    ),
}
_SAME = 5e-4  # overlaps with a smaller difference look equal when printed


def show_clustering() -> None:
    with st.container(horizontal=True, key="misleading_controls"):
        text = StickyText(
            easy=slider("Acceptance if easy", 0.0, 1.0, 0.95, step=0.01, key="misleading_easy"),
            hard=slider("Acceptance if hard", 0.0, 1.0, 0.45, step=0.01, key="misleading_hard"),
            easy_share=slider(
                "Share of easy tokens", 0.0, 1.0, 0.6, step=0.01, key="misleading_share"
            ),
            stickiness=slider(
                "Stickiness", 0.0, 1.0, 0.8, step=0.01, key="misleading_stickiness",
                hint="Correlation of neighbouring tokens. At 0, easy and hard tokens are mixed at "
                "random; at 1, a text is entirely easy or entirely hard.",
            ),
        )  # fmt: skip
        gamma = whole_slider("Candidates per round, γ", 1, 24, 5, key="misleading_gamma")
    exact, mean = tokens_per_round(text, gamma), min(1.0, text.mean_alpha)
    formula, endless = expected_tokens(mean, gamma), tokens_per_round(text, math.inf)
    show_sentence(
        f"The mean acceptance rate α is {PROBABILITY.bare(mean)} at every stickiness. With "
        f"γ = {gamma} candidates per round, the formula predicts **{TOKENS.bare(formula)}** tokens "
        f"per round. With stickiness {text.stickiness:.2f}, the exact number is "
        f"**{TOKENS.bare(exact)}** tokens, which is {fewer(exact, formula)}."
    )
    show_chart(
        tokens_over_stickiness(text, gamma),
        "Whether a token is easy or hard depends on whether the token before it is easy or hard (a "
        "Markov chain).",
        "exact",
        key="misleading_clusters",
        alt="Tokens per round at each stickiness: exact, and by the formula at the mean α.",
    )
    whole = tokens_if_rounds_differ(text, gamma)
    st.markdown(
        f"As γ grows, the exact number and the formula’s {_limit(endless)}: the rejections in a "
        "long text depend only on the mean α (Yin et al. 2024, theorem 1). But with γ "
        f"{gamma}, if every round were entirely easy or entirely hard, a round would yield "
        f"{TOKENS.bare(whole)} tokens on average, {compared(whole, formula)} (Jensen's inequality)."
    )
    show_formula(
        r"\tau = 1 + \sum_{i=1}^{\gamma} \prod_{j \le i} \alpha_j"
        r"\;\;\ne\;\; \frac{1-\bar\alpha^{\gamma+1}}{1-\bar\alpha}",
        {
            r"\alpha_j": "acceptance rate at position j, if all candidates before j were accepted",
            r"\bar\alpha": "mean acceptance rate over all tokens",
            **names_in_formula("gamma"),
            "i, j": "positions in a round, from 1",
            **names_in_formula("tau"),
        },
        "The right side is Leviathan et al. 2023, equation 1. It assumes that tokens are accepted "
        "independently and with the same probability. The left side makes no such assumption.",
    )


def show_tail() -> None:
    with st.container(horizontal=True, key="misleading_controls"):
        alpha = slider("Acceptance, α", 0.0, 1.0, 0.85, step=0.01, key="misleading_alpha")
        c = slider("Draft cost, c", 0.0, 1.0, 0.1, step=0.01, key="misleading_c")
        v = slider("Verification cost, v", 1.0, 4.0, 1.0, step=0.05, key="misleading_v")
        gamma = whole_slider(
            "Candidates per round, γ", 1, _TAIL_GAMMAS, 8, key="misleading_tail_gamma"
        )
        length = whole_slider("Tokens to generate", 8, 512, 128, key="misleading_length")
    distributions = rounds_distributions(alpha, _TAIL_GAMMAS, length)
    rounds = distributions[gamma - 1]
    show_sentence(f"{tail_sentence(rounds, c, v)} {best_gammas_sentence(distributions, c, v)}")
    show_chart(
        mean_and_tail(distributions, c, v, gamma),
        f"Computed from the exact distribution of the rounds for {length} tokens. A round costs "
        "γ c + v target steps.",
        "exact",
        key="misleading_tail",
        alt="Speedup at each γ, for the mean, 90th and 99th percentile of the number of rounds.",
    )
    show_chart(
        rounds_spread(rounds),
        f"At γ {gamma} a text takes {rounds.mean:.1f} rounds on average, with a standard deviation "
        f"of {rounds.spread:.1f}.",
        "exact",
        key="misleading_rounds",
        alt="Distribution of the number of rounds.",
    )
    show_formula(
        r"P(A = k) = \alpha^k\,(1-\alpha)^{[k<\gamma]}",
        {
            "P": "probability",
            "A": "accepted candidates in a round, which gives A + 1 tokens",
            "k": "from 0 to γ",
            **names_in_formula("alpha", "gamma"),
            r"[k<\gamma]": "1 if k is below γ, else 0",
        },
        "Leviathan et al. 2023, section 3.1; the number of rounds is computed by dynamic "
        "programming. Chen et al. 2023 also report that times vary more with a larger γ.",
    )


def show_batch() -> None:
    with st.container(horizontal=True, key="misleading_controls"):
        names = [gpu.name for gpu in GPUS]
        name = st.selectbox("GPU", names, 2, key="misleading_gpu", bind="query-params")
        batch = whole_slider("Sequences in the batch", 1, 512, 64, key="misleading_batch")
        context = whole_slider("Context, tokens", 128, 65536, 1024, key="misleading_context")
        billions = slider(
            "Target, billions", 1.0, 600.0, 8.0, step=0.1, key="misleading_target",
            hint="Number of parameters. The size of the KV cache is scaled from an 8B model.",
        )  # fmt: skip
        small = slider("Draft, billions", 0.1, 60.0, 0.5, step=0.1, key="misleading_draft")
        alpha = slider("Acceptance, α", 0.0, 1.0, 0.75, step=0.01, key="misleading_batch_alpha")
        gamma = whole_slider("Candidates per round, γ", 1, 16, 5, key="misleading_batch_gamma")
    gpu = GPUS[names.index(name)] if name in names else GPUS[-1]
    target, draft = sized(TARGET_8B, 1e9 * billions), sized(DRAFT_HALF_B, 1e9 * small)
    reads = f"A pass of the target reads **{SIZE.shown(target.weight_bytes)}** of weights."
    try:
        serving = Serving(gpu=gpu, target=target, draft=draft, batch=batch, context=context)
    except SpecvizError as error:
        st.markdown(reads)
        st.warning(as_text(error))
        _show_bytes(target, batch)
        if any(largest_batch(gpu, target, draft, each) for each in _CONTEXTS):
            _show_over_batch(gpu, target, draft, alpha, gamma)
    else:
        show_sentence(f"{reads} {batch_sentence(serving, alpha, gamma)}")
        _show_over_batch(gpu, target, draft, alpha, gamma)
        _show_bytes(target, batch)
    show_formula(
        r"t(n) = \max\!\left(\frac{W + B\,\ell\,\kappa}{\beta},\;\frac{2 N B n}{F}\right)",
        {
            "t": "time of a pass",
            "n": "tokens per sequence in the pass",
            "W": "bytes of weights",
            "B": "sequences",
            r"\ell": "context",
            r"\kappa": "bytes of KV cache per token",
            r"\beta": "bandwidth",
            "N": "parameters",
            "F": "peak operations per second",
        },
        f"A roofline model, not a measurement: a target of {billions:g}B and a draft of {small:g}B "
        f"in bf16, with the peak figures of NVIDIA's data sheets. On the {gpu.name}, reading the "
        f"weights takes as long as the arithmetic for {gpu.ridge:.0f} tokens.",
    )
    show_formula(
        r"v = \frac{t(\gamma+1)}{t(1)},\quad S = \frac{\tau}{\gamma c + v}",
        {
            **names_in_formula("v"),
            "t": "time of a pass of the target",
            **names_in_formula("c", "gamma", "tau"),
            "S": "speedup: decoding is S times as fast as with the target alone",
        },
        "Leviathan et al. 2023, theorem 3.8, extended by the cost of verification.",
    )


def _show_over_batch(gpu: Gpu, target: Model, draft: Model, alpha: float, gamma: int) -> None:
    costs, speeds = over_batch(gpu, target, draft, _CONTEXTS, alpha, gamma)
    left, right = st.columns(2)
    with left:
        show_chart(
            speeds, "Speedup. A line ends where the KV caches do not fit into memory.", "exact",
            key="misleading_batch_speed", alt="Speedup at each batch size, by context length.",
        )  # fmt: skip
    with right:
        show_chart(
            costs, f"Cost of verifying {gamma + 1} tokens, in target steps. At 1, the extra tokens "
            "are free.", "exact",
            key="misleading_batch_cost", alt="Cost of a verification at each batch size.",
        )  # fmt: skip


def _show_bytes(target: Model, batch: int) -> None:
    show_chart(
        bytes_a_pass(target, _CONTEXTS, batch),
        "Bytes that a target pass reads: the weights once per batch, and one KV cache per "
        "sequence. The sum can exceed the GPU's memory.",
        "exact",
        key="misleading_bytes",
        alt="Bytes that a target pass reads, by batch size, at four context lengths.",
    )


def show_temperature() -> None:
    with st.container(horizontal=True, key="misleading_controls"):
        name = st.selectbox(
            "Likeliest tokens",
            list(_PAIRS),
            key="misleading_pair",
            bind="query-params",
            help="One favourite: draft and target have the same likeliest token. Two favourites: "
            "their likeliest tokens differ.",
        )
        temperature = slider(
            "Temperature", 0.0, 5.0, 1.0, step=0.05, key="misleading_temperature",
            hint="The temperature of both models. At 0, all probability is on the likeliest token.",
        )  # fmt: skip
    draft, target = (np.log(each) for each in _PAIRS.get(name, _PAIRS[next(iter(_PAIRS))]))
    alpha = overlap(draft, target, temperature)
    own, greatest = best_draft_temperature(draft, target, temperature)
    better = (
        f"With the draft at temperature {own:.2f} instead, α is **{PROBABILITY.bare(greatest)}**."
        if greatest - alpha > _SAME
        else "No other draft temperature gives a higher rate."
    )
    show_sentence(
        f"At temperature {temperature:.2f} for both models, the acceptance rate α is "
        f"**{PROBABILITY.bare(alpha)}**. {better}"
    )
    show_chart(
        alpha_over_temperature(draft, target, temperature),
        "Overlap of the two distributions at one position, with a vocabulary of five tokens. The "
        "overlap does not always fall as temperature rises.",
        "exact",
        key="misleading_overlap",
        alt="Acceptance at each temperature of the target: with the draft at the same temperature, "
        "and with the draft at its best temperature.",
    )
    show_formula(
        r"\alpha(T) = \sum_x \min\!\left(\sigma(z_{\text{draft}}/T)_x,\; "
        r"\sigma(z_{\text{target}}/T)_x\right)",
        {
            r"\alpha": "acceptance rate at this position",
            "T": "temperature",
            "x": "a token",
            r"z_{\text{draft}},\, z_{\text{target}}": "logits of the two models",
            r"\sigma": "softmax",
        },
        "Leviathan et al. 2023, corollary 3.6, at each temperature. As T grows, α tends to 1. As T "
        "falls to 0, α tends to 1 if the likeliest tokens agree, else to 0.",
    )  # fmt: skip


def show_estimates(runs: Sequence[ShownRun]) -> None:
    names = {each.id: run_name(each) for each in reversed(runs)}
    chosen = st.selectbox(
        "Run", list(names), format_func=lambda each: names[each], key="misleading_run"
    )
    shown = next(each for each in runs if each.id == chosen)
    figures = shown.figures
    if not figures.num_tested:
        st.info("No candidate of this run has been tested yet.")
        return
    share = figures.num_accepted / figures.num_drafted
    observed = alpha_from_tested(figures.num_accepted, figures.num_tested)
    show_sentence(
        f"{figures.num_drafted} candidates drafted, {figures.num_tested} tested, "
        f"{figures.num_accepted} accepted. The acceptance rate α, accepted / tested, is "
        f"**{PROBABILITY.bare(observed)}**; accepted / drafted is **{PROBABILITY.bare(share)}**. "
        f"{_formula_sentence(shown, share, observed)}"
    )
    show_chart(
        alpha_estimates(_estimates(shown, share, observed)),
        f"{as_text(names[shown.id])}. The bar is Wilson's 95 % interval, which assumes independent "
        "verdicts of equal probability. These assumptions are rarely true.",
        "measured",
        key="misleading_estimates",
        alt="Estimates of alpha with their intervals.",
    )
    st.caption(
        f"With {figures.num_tested} tested candidates, Hoeffding's bound is "
        f"± {PROBABILITY.bare(hoeffding_half_width(figures.num_tested))}. This bound assumes "
        "independence, but not equal probabilities."
    )
    show_formula(
        r"\hat\alpha = \frac{\text{accepted}}{\text{tested}},\qquad "
        r"\frac{\text{accepted}}{\text{drafted}} \to \frac{\tau-1}{\gamma}",
        {
            r"\hat\alpha": "the maximum-likelihood estimate of the acceptance rate",
            **names_in_formula("tau", "gamma"),
        },
        "Geometric distribution capped at γ: Leviathan et al. 2023, section 3.1; its maximum "
        "likelihood estimate is derived here. Interval: Wilson 1927. Bound: Hoeffding 1963. "
        + _odds_sentence(shown),
    )


def _formula_sentence(shown: ShownRun, share: float, observed: float) -> str:
    """Describe the tokens per round that the formula predicts with two estimates of α.

    Args:
        share: One estimate, the accepted candidates divided by the drafted candidates.
        observed: The other estimate, the accepted candidates divided by the tested candidates.
    """
    tau, gamma = shown.figures.tau, shown.trace.config.gamma
    found = "" if tau is None else f" The run yielded {TOKENS.bare(tau)} tokens per round."
    if not shown.trace.config.fixed_length:
        return (
            f"The number of candidates differs from round to round, up to γ {gamma}, so the "
            f"formula does not apply.{found}"
        )
    return (
        f"With γ = {gamma} candidates per round, the formula predicts "
        f"{TOKENS.bare(expected_tokens(observed, gamma))} tokens per round with accepted / tested "
        f"as α, but {TOKENS.bare(expected_tokens(share, gamma))} with accepted / drafted as α."
        f"{found} By the formula, α = {PROBABILITY.bare(alpha_from_drafted(share, gamma))} gives "
        f"accepted / drafted = {PROBABILITY.bare(share)}, and α = {PROBABILITY.bare(observed)} "
        f"gives accepted / drafted = {PROBABILITY.bare(drafted_share(observed, gamma))}."
    )


def _odds_sentence(shown: ShownRun) -> str:
    if shown.trace.config.exact:
        return "The mean overlap Σ min(draft, target) gives the same α without sampling noise."
    return (
        "The rule of this run is lossy. With over-acceptance, the mean of "
        "Σ min(draft, target + ε) is the acceptance rate without sampling noise."
    )


def _estimates(shown: ShownRun, share: float, observed: float) -> list[AlphaEstimate]:
    figures = shown.figures
    low, high = wilson_interval(figures.num_accepted, figures.num_tested)
    found = [
        AlphaEstimate(label="accepted / drafted", value=share),
        AlphaEstimate(label="accepted / tested", value=observed, low=low, high=high),
    ]
    if figures.alpha_expected is not None:
        label = "mean overlap" if shown.trace.config.exact else "mean overlap with ε"
        found.append(AlphaEstimate(label=label, value=figures.alpha_expected))
    return found


def _limit(value: float) -> str:
    return "grow without limit" if math.isinf(value) else f"approach {TOKENS.bare(value)}"
