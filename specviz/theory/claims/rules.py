"""Claims about the verification rule: exactness, optimality, and batches of drafts."""

from __future__ import annotations

import itertools
import math

import numpy as np

from specviz.theory.chains import random_chains
from specviz.theory.claims.batches import batch_bias
from specviz.theory.claims.claim import (
    GUIDE,
    OVERVIEW,
    Chart,
    Claim,
    Figure,
    crossing,
    first,
    tokens_chart,
    verdict_for,
)
from specviz.theory.claims.swapped import (
    accepted_by_verifier,
    chart_of_verifiers,
    figures_of_verifiers,
    first_gain,
)
from specviz.theory.examples import REF5
from specviz.theory.rejections import batch_floor, batch_improvement, total_rejections
from specviz.theory.speed import expected_tokens
from specviz.theory.tradeoff import (
    Distribution,
    lossless,
    output_distribution,
    over_accept,
    reject_chance,
    rejection_and_bias,
    residual_distribution,
    total_variation,
)

_ROUNDING = 1e-12
_DRAFT, _TARGET = np.array(REF5.draft), np.array(REF5.target)
_BATCHES = (1, 2, 4, 16, 64)
_RESIDUAL = r"\text{residual} \propto \max(0,\, p_{\text{target}} - p_{\text{draft}})"
_MODELS = ((r"p_{\text{draft}},\, p_{\text{target}}", "a token’s probability under each model"),)

_SEED, _SIZE, _HORIZON = 10, 7, 50  # the default Markov chain of the Rejections page
_TEXT = 3  # first tokens of a text, whose joint distribution is enumerated


def rule_claims() -> tuple[Claim, ...]:
    return (
        _exact_output(),
        _new_token_from_target(),
        _same_tokenizer(),
        _fewest_rejections(),
        _rejections_and_time(),
        _bias_for_speed(),
        _batch_scaling(),
        _batch_accuracy(),
    )


def _exact_output() -> Claim:
    bias = _lossless_bias(_DRAFT)
    overlap = 1 - reject_chance(_DRAFT, lossless(_DRAFT, _TARGET))
    textbook = 1 / float((_TARGET / _DRAFT).max())
    flip_at = crossing(
        lambda epsilon: rejection_and_bias(_DRAFT, _TARGET, _over(epsilon))[1] - 0.1, 0.0, 0.25
    )
    return Claim(
        id="exact-output",
        source=GUIDE,
        quote="… a probabilistic method known as rejection sampling, which rigorously ensures that "
        "the output distribution precisely matches that of the target model's standard "
        "generation.",
        verdict=verdict_for([bias < _ROUNDING, _lossless_bias(_DRAFT[::-1]) < _ROUNDING]),
        finding=f"If the token after a rejection is drawn from the residual, the output "
        f"distribution differs from the target’s by {bias:.0e} on the five-token example, a "
        "rounding error. The name “rejection sampling” is imprecise: textbook rejection sampling "
        f"would accept here with probability {textbook:.2f}, this rule with {overlap:.2f}. This "
        "calculation ignores that a batched pass in half precision rounds differently from a pass "
        "over one token.",
        flip=f"If the rule over-accepts by ε (see the formula), the error is 0.10 at "
        f"ε = {flip_at:.3f}.",
        figures=(
            Figure(label="error", value=bias, form=".0e"),
            Figure(label="accepted", value=overlap),
            Figure(label="textbook rejection", value=textbook),
        ),
        chart=_bias_chart("The output distribution where the verdict changes", flip_at),
        run="residual",
        latex=rf"{_RESIDUAL} \\ b_\varepsilon = "
        r"\min\!\left(1, \tfrac{p_{\text{target}} + \varepsilon}{p_{\text{draft}}}\right)",
        symbols=(*_MODELS, (r"b_\varepsilon", "acceptance probability with over-acceptance ε")),
    )


def _lossless_bias(draft: Distribution) -> float:
    made = output_distribution(
        draft, _TARGET, lossless(draft, _TARGET), residual_distribution(draft, _TARGET)
    )
    return total_variation(made, _TARGET)


def _over(epsilon: float) -> Distribution:
    return over_accept(_DRAFT, _TARGET, epsilon)


def _new_token_from_target() -> Claim:
    made = output_distribution(_DRAFT, _TARGET, lossless(_DRAFT, _TARGET), _TARGET)
    bias = total_variation(made, _TARGET)
    flip_at = crossing(lambda share: _target_drawn_bias(share) - 0.01, 0.0, 1.0)
    return Claim(
        id="new-token-from-target",
        source=GUIDE,
        quote="if rejected: Discard this token and all following draft tokens … Generate one new "
        "token from target model",
        verdict=verdict_for([bias < _ROUNDING]),
        finding=f"Read literally, the rule of the quote is not lossless. If the new token is drawn "
        f"from the target, the output’s distribution is "
        f"({', '.join(f'{each:.4g}' for each in made)}) instead of the target’s "
        f"({', '.join(f'{each:.4g}' for each in _TARGET)}). The error (total variation) is "
        f"{bias:.3f}. The token must be drawn from the residual.",
        flip=f"The error is below 0.01 if the draft’s probabilities are moved more than "
        f"{100 * flip_at:.0f} % of the way to the target’s. The error is zero only if draft and "
        "target are equal or nothing is rejected.",
        figures=(
            Figure(label="error, from the target", value=bias, form=".3f"),
            Figure(label="error, from the residual", value=_lossless_bias(_DRAFT), form=".0e"),
        ),
        chart=_bias_chart("The output distribution of this rule", 0.0),
        run="residual",
        latex=_RESIDUAL,
        symbols=_MODELS,
    )


def _target_drawn_bias(share: float) -> float:
    """Return the bias if the token after a rejection is drawn from the target's distribution.

    The draft is mixed with the target. The target's weight in the mixture is ``share``.
    """
    draft = (1 - share) * _DRAFT + share * _TARGET
    return rejection_and_bias(draft, _TARGET, lossless(draft, _TARGET), _TARGET)[1]


def _same_tokenizer() -> Claim:
    cut = np.append(_DRAFT[:-1], 0.0) / _DRAFT[:-1].sum()
    biases = [_lossless_bias(cut)]
    shuffled = [np.array(each) for each in itertools.permutations(REF5.draft)]
    biases += [_lossless_bias(each) for each in shuffled]
    overlaps = [float(np.minimum(each, _TARGET).sum()) for each in shuffled]
    return Claim(
        id="same-tokenizer",
        source=GUIDE,
        quote="Identical tokenizer to the target model. This is an absolute requirement.",
        verdict=verdict_for([max(biases) > _ROUNDING, min(overlaps) < 0.7]),
        finding=f"High acceptance needs identical tokenizers, exactness does not. The rule is "
        f"exact for any draft distribution over the target’s token ids. With a vocabulary of five "
        f"tokens, the error is at most {max(biases):.0e}, both for a draft that never generates "
        f"the fifth token and for a draft with its token ids permuted, in all {len(shuffled)} "
        f"permutations. But acceptance ranges from {min(overlaps):.2f} to {max(overlaps):.2f} over "
        f"the permutations. specviz rejects a pair unless all token "
        "ids match (except padding), because every acceptance probability compares both models on "
        "the same token. Methods for different vocabularies exist (Timor et al. 2025); they are "
        "not computed here.",
        flip=f"A draft that never generates the fifth token of the vocabulary has an acceptance "
        f"of {np.minimum(cut, _TARGET).sum():.2f} instead of 0.70. Drafts with a different "
        "vocabulary are not computed here.",
        figures=(
            Figure(label="largest error", value=max(biases), form=".0e"),
            Figure(label="lowest acceptance", value=min(overlaps)),
            Figure(label="one token missing", value=float(np.minimum(cut, _TARGET).sum())),
        ),
        chart=_bias_chart("Acceptance of two small distributions", 0.0),
    )


def _fewest_rejections() -> Claim:
    token, block = accepted_by_verifier(3)
    accept = lossless(_DRAFT, _TARGET)
    lazier = [reject_chance(_DRAFT, share * accept) for share in (0.5, 0.9, 0.99)]
    within = all(each > reject_chance(_DRAFT, accept) for each in lazier)
    return Claim(
        id="fewest-rejections",
        source=OVERVIEW,
        quote="… possibly demonstrating that no unbiased algorithm can achieve fewer rejections "
        "than SD.",
        verdict=verdict_for([within, block <= token, _chain(8) >= _chain(1)]),
        finding=f"True for the rules that theorem 2 of Yin et al. covers: they verify a single "
        f"draft, token by token, and each verdict depends only on that token and the tokens before "
        f"it. Other unbiased rules do better. If the draft swaps the target’s probabilities of two "
        f"tokens, block verification accepts {block:.3f} of three candidates on average, and token "
        f"verification accepts {token:.3f}. On a Markov chain of {_HORIZON} tokens, eight parallel "
        f"drafts lower the expected rejections from {_chain(1):.3f} to {_chain(8):.3f}.",
        flip=f"From γ = {first_gain()} on, block verification accepts more candidates than token "
        "verification. Two or more parallel drafts have fewer rejections than one.",
        figures=figures_of_verifiers(3, form=".3f"),
        chart=chart_of_verifiers(3),
        run="rejections",
    )


def _chain(num_drafts: float) -> float:
    """Return the expected rejections on the default Markov chain with this many drafts."""
    return total_rejections(random_chains(_SEED, _SIZE, _HORIZON), num_drafts)


def _rejections_and_time() -> Claim:
    alpha = 0.9
    rejections = 1 - alpha
    rounds = 1 / expected_tokens(alpha, 5)
    flip_at = first(lambda gamma: 1 / expected_tokens(alpha, gamma) < 1.05 * rejections, 1, 200)
    return Claim(
        id="rejections-and-time",
        source=OVERVIEW,
        quote="It derives precise formulas for the expected number of rejections, which directly "
        "relates to inference time.",
        verdict=verdict_for([1 / expected_tokens(alpha, 200) < 1.001 * rejections, rounds < 0.11]),
        finding=f"True in the paper’s setting, where drafts cost nothing and extend to the end "
        f"of the text. With γ 5 and α {alpha:.2f} a token needs {rounds:.3f} target passes but has "
        f"only {rejections:.3f} rejections, because most rounds end at γ, not at a rejection. If "
        "drafting takes time, a large γ need not help.",
        flip=f"At α {alpha:.2f} the number of passes is within 5 % of the number of rejections "
        f"only from γ = {flip_at}.",
        figures=(
            Figure(label="rejections per token", value=rejections, form=".3f"),
            Figure(label="passes per token, γ 5", value=rounds, form=".3f"),
            Figure(label="γ for passes within 5 %", value=flip_at, form=".0f"),
        ),
        chart=tokens_chart(alpha, flip_at),
        run="rejections",
    )


def _bias_for_speed() -> Claim:
    steps = [rejection_and_bias(_DRAFT, _TARGET, _over(each / 100)) for each in range(0, 26)]
    distance = total_variation(_DRAFT, _TARGET)
    on_line = all(abs(sum(each) - distance) < _ROUNDING for each in steps)
    flip_at = crossing(lambda epsilon: reject_chance(_DRAFT, _over(epsilon)) - 1e-9, 0.0, 1.0)
    saved = batch_improvement(_DRAFT, _TARGET, 4)
    return Claim(
        id="bias-for-speed",
        source=OVERVIEW,
        quote="Reducing rejections often requires accepting tokens from the draft model that might "
        "deviate from the large model’s ideal distribution, thus increasing the bias.",
        verdict=verdict_for([on_line]),
        finding=f"True for one draft token: at every ε, rejection probability and least bias add "
        f"up to the total variation between the models, {distance:.2f} on the five-token example. "
        f"“Often” is right: four parallel drafts lower the rejection probability "
        f"from {distance:.2f} to {distance - saved:.3f} without bias.",
        flip=f"From ε = {flip_at:.3f} nothing is rejected and the bias is the full "
        f"{distance:.2f}: the draft alone generates the text.",
        figures=(
            Figure(label="rejection + bias", value=sum(steps[10])),
            Figure(label="total variation", value=distance),
            Figure(label="no rejection from ε", value=flip_at, form=".3f"),
        ),
        chart=_bias_chart("The Pareto plane where the verdict changes", flip_at),
        run="pareto",
    )


def _batch_scaling() -> Claim:
    one, four, limit = _chain(1), _chain(4), _chain(math.inf)
    floor = batch_floor(one)
    gains = [_chain(each) - _chain(2 * each) for each in (1, 2, 4, 8, 16, 32)]
    half, most = (
        first(lambda drafts, share=share: one - _chain(drafts) > share * (one - limit), 1, 200)
        for share in (0.5, 0.9)
    )
    return Claim(
        id="batch-scaling",
        source=OVERVIEW,
        quote="… while increasing batch size generally improves efficiency, it does not scale "
        "indefinitely.",
        verdict=verdict_for([four < one, limit > floor > 0, gains == sorted(gains, reverse=True)]),
        finding=f"On a Markov chain of {_HORIZON} tokens, expected rejections fall from {one:.3f} "
        f"with one draft to {four:.3f} with four. With more drafts, they fall towards {limit:.3f}. "
        f"On other Markov chains that have {one:.3f} with one draft, they may fall further, but "
        f"never below {floor:.3f}, because only the token after a rejection gets several drafts.",
        flip=f"Half of the possible reduction takes {half} drafts; nine tenths take {most}.",
        figures=(
            Figure(label="1 draft", value=one, form=".3f"),
            Figure(label="4 drafts", value=four, form=".3f"),
            Figure(label="infinitely many", value=limit, form=".3f"),
        ),
        chart=_drafts_chart("Rejections for each number of drafts", half),
        run="drafts",
        latex=r"\mathbb{E}[N_M] \ge \tfrac{1}{2}\big(\mathbb{E}[N_1] - 1\big)",
        symbols=(
            (r"\mathbb{E}", "mean"),
            (r"N_1,\, N_M", "rejections in a text, with one draft and with M drafts"),
        ),
    )


def _batch_accuracy() -> Claim:
    chains = random_chains(_SEED, _SIZE, _HORIZON)
    biases = [batch_bias(chains, each, length=_TEXT) for each in _BATCHES]
    wrong_rule = batch_bias(chains, _BATCHES[-1], length=_TEXT, renew=False)
    return Claim(
        id="batch-accuracy",
        source=OVERVIEW,
        quote="… as overly aggressive batching can impact the accuracy of the final result.",
        verdict=verdict_for([max(biases) > _ROUNDING]),
        finding=f"Batch speculation is unbiased with any number of drafts (Yin et al. 2024, "
        f"theorem 3). The distribution of a text’s first {_TEXT} tokens, enumerated on a Markov "
        f"chain for {', '.join(map(str, _BATCHES[:-1]))} and {_BATCHES[-1]} drafts, differs from "
        f"the target’s by at most {max(biases):.0e}. A different rule can be biased: testing "
        f"every draft against the first residual would have an error of {wrong_rule:.3f}.",
        flip="Nowhere. Batch speculation is unbiased with any number of drafts.",
        figures=(
            Figure(label="largest error", value=max(biases), form=".0e"),
            Figure(label="wrong rule", value=wrong_rule, form=".3f"),
        ),
        chart=_drafts_chart("Rejections and bias with several drafts", 16),
    )


def _drafts_chart(label: str, num_drafts: int) -> Chart:
    """Return a link to the tab "Several drafts" of the Rejections page, with the default chain."""
    return Chart(
        page="rejections",
        label=label,
        settings=(
            ("rejections_tab", "Several drafts"),
            ("rejections_seed", _SEED),
            ("rejections_horizon", _HORIZON),
            ("rejections_drafts", num_drafts),
        ),
    )


def _bias_chart(label: str, epsilon: float) -> Chart:
    """Return a link to the five-token example on the page "Bias or speed"."""
    return Chart(
        page="bias",
        label=label,
        settings=(("bias_example", REF5.name), ("bias_epsilon", round(epsilon, 3))),
    )
