"""Sentences and formulas of the page "Bias or speed", and the tokens of a run as dots."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from specviz.figures.symbols import names_in_formula
from specviz.record.trace import Candidate, Trace
from specviz.theory import blocks, multidraft, tradeoff
from specviz.ui.session.history import History, ShownRun
from specviz.ui.theory.bias.charts import Dots
from specviz.ui.theory.bias.simulation import NARROW, Settings, Simulation
from specviz.ui.widgets.page_parts import DISTANCE, PROBABILITIES, show_formula
from specviz.ui.widgets.plain_text import as_text

_LEAST_DISTANCE = 1e-3  # total variation between the models; tokens below it are not drawn


def simulation_sentence(simulation: Simulation, paused: bool) -> str:
    counted = (
        f"{simulation.trials:,} positions simulated per rule; the widest interval is "
        f"±{simulation.widest:.4f}"
    )
    if simulation.trials == 0:
        return "The simulation was paused before it began."
    if simulation.done:
        return f"{counted}. The simulation stopped because every interval is narrow enough."
    return (
        f"{counted}. The simulation "
        f"{'is paused' if paused else f'stops when every interval is within ±{NARROW}'}."
    )


def plane_sentence(settings: Settings) -> str:
    distance = settings.distance
    if distance < 1e-9:
        return "Draft and target are equal: nothing is rejected, and there is no bias."
    reject, bias = settings.policies()[0].point
    _, uno = settings.policies()[1].point
    text = (
        f"With over-acceptance ε {settings.epsilon:g}, a token is rejected with probability "
        f"**{reject:.3f}**, and the bias is **{bias:.3f}**. Together they equal the distance "
        f"between the models, {distance:.3f}."
    )
    if reject < 1e-9:
        return text
    return f"{text} If recovered tokens came from the target itself, the bias would be {uno:.3f}."


def bars_sentence(settings: Settings, labels: Sequence[str]) -> str:
    areas = tradeoff.areas(settings.draft, settings.target, settings.over_accept())
    worst = int(np.argmax(areas.rejected))
    if areas.rejected[worst] < 1e-9:
        return f"With over-acceptance ε {settings.epsilon:g}, no drafted token is ever rejected."
    odds = areas.accepted[worst] / settings.draft[worst]
    return (
        f"If drafted, “{labels[worst]}” is accepted with probability {odds:.2f} "
        f"(draft {settings.draft[worst]:.2f}, target {settings.target[worst]:.2f}"
        f"{f', over-acceptance ε {settings.epsilon:g}' if settings.epsilon else ''}). "
        f"Over all tokens, the acceptance probability is **{areas.accepted.sum():.3f}**."
    )


def blocks_sentence(curves: blocks.Curves) -> str:
    if len(curves.token) == 1:
        return (
            "With γ = 1 candidate per round, block and token-by-token verification both accept "
            f"with probability **{curves.block[0]:.3f}**; no verifier exceeds this probability. "
            "From γ = 2 on, block verification accepts more."
        )
    return (
        f"Block verification judges the γ = {len(curves.token)} candidates of a round together, "
        f"without bias. On average it accepts **{curves.block[-1]:.3f}** of them; token-by-token "
        f"verification accepts {curves.token[-1]:.3f}. No verifier exceeds "
        f"{curves.bound[-1]:.3f}.  \n"
        "A later token can save a candidate that would be rejected on its own. The limit in "
        "theorem 2 of Yin et al. covers only rules that judge token by token, so it does not apply "
        "to block verification."
    )


def drafts_sentence(curves: multidraft.Curves) -> str:
    if len(curves.optimal) == 1:
        return (
            "With one draft for one position, recursive rejection is the usual lossless rule. The "
            f"draft is accepted with probability **{curves.recursive[0]:.3f}**; no lossless rule "
            "exceeds this probability."
        )
    return (
        f"With {len(curves.optimal)} drafts for one position, recursive rejection (Yin et al., "
        f"SpecInfer) accepts one of them with probability **{curves.recursive[-1]:.3f}**; no "
        f"lossless rule exceeds {curves.optimal[-1]:.3f}."
    )


def biased_runs(history: History) -> list[ShownRun]:
    """Return the session's runs with the over-acceptance rule and recorded probabilities."""
    shown = history.shown_runs()
    runs = [each for each in shown if "residual" in each.trace.config.judging.takes]
    return [each for each in runs if _judged(each.trace)]


def run_dots(trace: Trace) -> Dots:
    """Return a dot per tested token, at its P(reject) and its bias.

    Both are divided by the total variation distance between the models at this token.
    """
    dots = [
        ((1.0 - token.expected_acceptance) / (1.0 - overlap), bias / (1.0 - overlap), token)
        for token, overlap, bias in _judged(trace)
        if 1.0 - overlap >= _LEAST_DISTANCE
    ]
    return Dots(
        reject=[each[0] for each in dots],
        bias=[each[1] for each in dots],
        tooltips=[_tooltip(token) for _, _, token in dots],
    )


def run_sentence(trace: Trace) -> str:
    judged = _judged(trace)
    config = trace.config
    count = len(judged)
    reject = sum(1.0 - token.expected_acceptance for token, _, _ in judged) / count
    bias = sum(each for _, _, each in judged) / count
    distance = sum(1.0 - overlap for _, overlap, _ in judged) / count
    source = "residual" if config.residual == "leftover" else as_text(config.residual)
    return (
        f"{count} tested tokens with ε {config.epsilon:g}; recovered tokens are drawn from the "
        f"{source}. On average, the probability of a rejection is **{reject:.3f}** and the bias is "
        f"**{bias:.3f}**. Their sum is {reject + bias:.3f}. For every rule, the sum is at least "
        f"the distance between the models, {distance:.3f}."
    )


def show_bias_formulas() -> None:
    rule = {
        "b": "probability that a drafted token is accepted",
        "r": "the distribution from which the recovered token is drawn",
        r"\mathrm{bias}": "distance between the emitted distribution and the target's",
    }
    show_formula(
        r"\Pr(\text{reject}) + \min_r \mathrm{bias} = d \\ \text{if}\quad "
        r"\min\!\left(1, \tfrac{p_{\text{target}}}{p_{\text{draft}}}\right) \le b \le 1",
        {r"\Pr": "probability", **rule, "d": DISTANCE, **PROBABILITIES},
        "Yin et al. 2024, theorem 5. In the plane above, all rules that meet this condition lie on "
        "one straight line.",
    )
    show_formula(
        r"\min_r \mathrm{bias} = \tfrac12 \sum_x |p_{\text{target}} - b\,p_{\text{draft}}| \\ "
        r"{} - \tfrac12 \sum_x (1 - b)\,p_{\text{draft}}",
        {**rule, **PROBABILITIES, "x": "a token"},
        r"Yin et al. 2024, theorem 4. The bias is smallest if r is "
        r"$\max(0, p_{\text{target}} - b\,p_{\text{draft}})$, normalised. Under the condition of "
        r"theorem 5, this r equals the lossless residual, "
        r"$\max(0, p_{\text{target}} - p_{\text{draft}})$, normalised (derived here).",
    )
    show_formula(
        r"b_\varepsilon = \min\!\left(1, \tfrac{p_{\text{target}} + \varepsilon}"
        r"{p_{\text{draft}}}\right) \\ "
        r"b_\ell = \min\!\left(1, \tfrac{p_{\text{target}}}{\ell\, p_{\text{draft}}}\right) \\ "
        r"b_t = [\,p_{\text{target}} \ge t\,]",
        {
            "b": rule["b"],
            **PROBABILITIES,
            **names_in_formula("epsilon"),
            r"\ell": "lenience",
            "t": "threshold",
        },
        "Yin et al. 2024, section 4.2 (OPT draws from the residual, UNO from the target); "
        "Leviathan et al. 2023, appendix A.5.",
    )


def show_block_formula() -> None:
    show_formula(
        r"\mathbb{E}[A] = \sum_{i=1}^{\gamma} \mathbb{E}_{\text{draft}}[w_i] \\ "
        r"w_i = \min\!\left(1,\; w_{i-1}\, "
        r"\frac{p_{\text{target}}(x_i)}{p_{\text{draft}}(x_i)}\right) \\ w_0 = 1",
        {
            "A": "candidates accepted in a block, without the extra token",
            r"\mathbb{E}": "mean (with a subscript: the mean over blocks that the draft generates)",
            **names_in_formula("gamma"),
            "w_i": "probability that at least i candidates are accepted",
            "x_i": "candidate i",
            **PROBABILITIES,
        },
        "Sun et al. 2024. Token-by-token verification caps each factor at 1 before multiplying; "
        "the upper bound caps only the whole product.",
    )


def show_drafts_formula() -> None:
    show_formula(
        r"1 - \prod_{m=1}^{k} d_m \;\le\; "
        r"1 + \min_{H}\big(p_{\text{target}}(H) - p_{\text{draft}}(H)^k\big)",
        {
            "k": "drafts for this position",
            "d_m": "distance between the draft and the residual of the target after m − 1 rejected "
            "drafts",
            "H": "a set of tokens",
            r"p_{\text{draft}},\, p_{\text{target}}": "probability of H under draft and target",
        },
        "The left side is the acceptance probability of recursive rejection (SpecInfer, Miao et "
        "al. 2024; Yin et al. 2024, algorithm 4). The right side is the bound for any lossless "
        "rule (Hu et al. 2025). K-SEQ: Sun et al. 2023, SpecTr. Drafts without replacement: "
        "Sequoia, Chen et al. 2024.",
    )


def dots_sentence(trace: Trace) -> str:
    """Describe how many of the run's tested tokens are drawn as dots."""
    tested, drawn = len(_judged(trace)), len(run_dots(trace).reject)
    left = (
        f" Tokens on which the models agree have no dot: {tested - drawn} of {tested}."
        if drawn < tested
        else ""
    )
    return (
        f"{drawn} dots for the {tested} tested tokens of the newest over-accepting run, computed "
        f"from both models' probabilities.{left}"
    )


def _judged(trace: Trace) -> list[tuple[Candidate, float, float]]:
    return [
        (token, token.overlap, token.bias)
        for each in trace.rounds
        for token in each.candidates
        if token.tested and token.overlap is not None and token.bias is not None
    ]


def _tooltip(token: Candidate) -> str:
    """Return the tooltip of a token, with the token's text escaped as HTML."""
    apart = 1.0 - (token.overlap or 0.0)
    reject = 1.0 - token.expected_acceptance
    return (
        f"{html.escape(repr(token.text))} {token.verdict}<br>P(reject) {reject:.4f}, "
        f"bias {token.bias:.4f}<br>distance {apart:.4f}"
    )
