"""Sentences on the rule itself: is the output the target's, what is optimal, what a batch does."""

from __future__ import annotations

import itertools
import math

import numpy as np

from specviz.theory.blocks import expected_accepted, token_accepted
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
    judged,
    speed_chart,
)
from specviz.theory.examples import REF5, SWAPPED
from specviz.theory.rejections import batch_floor, batch_improvement, total_rejections
from specviz.theory.speed import expected_tokens
from specviz.theory.tradeoff import (
    Law,
    leftover,
    lossless,
    output_distribution,
    over_accept,
    reject_chance,
    rejection_and_bias,
    total_variation,
)

_ROUNDING = 1e-12
_DRAFT, _TARGET = np.array(REF5.draft), np.array(REF5.target)
_BATCHES = (1, 2, 4, 16, 64)
_MODELS = (("p", "the draft’s chance of a token"), ("q", "the target’s"))

_SEED, _SIZE, _HORIZON = 10, 7, 50  # the chain that the page on rejections opens on
_TEXT = 3  # tokens whose law is worked out text by text


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
    turn = crossing(
        lambda epsilon: rejection_and_bias(_DRAFT, _TARGET, _over(epsilon))[1] - 0.1, 0.0, 0.25
    )
    return Claim(
        id="exact-output",
        source=GUIDE,
        quote="… a probabilistic method known as rejection sampling, which rigorously ensures that "
        "the output distribution precisely matches that of the target model's standard "
        "generation.",
        verdict=judged([bias < _ROUNDING, _lossless_bias(_DRAFT[::-1]) < _ROUNDING]),
        finding=f"With the token after a rejection drawn from the leftover, the law of what is "
        f"emitted differs from the target’s by {bias:.0e} on the five-token example: "
        f"rounding. The name is loose: rejection sampling in the textbook’s sense would accept "
        f"{textbook:.2f} there, this rule accepts {overlap:.2f}. In half precision a batched pass "
        "rounds differently from a single one, which is outside this sum.",
        flip=f"Accept with ε more, as below, and the error reaches 0.10 at ε = {turn:.3f}.",
        figures=(
            Figure(label="distance from the target", value=bias, form=".0e"),
            Figure(label="accepted", value=overlap),
            Figure(label="textbook rejection", value=textbook),
        ),
        chart=_bias_chart("The output law at the flip", turn),
        run="residual",
        latex=r"\text{leftover} \propto \max(0,\, q - p) \\ "
        r"b_\varepsilon = \min\!\left(1, \tfrac{q + \varepsilon}{p}\right)",
        symbols=(*_MODELS, (r"b_\varepsilon", "chance to accept, with ε more than exact")),
    )


def _lossless_bias(draft: Law) -> float:
    made = output_distribution(draft, _TARGET, lossless(draft, _TARGET), leftover(draft, _TARGET))
    return total_variation(made, _TARGET)


def _over(epsilon: float) -> Law:
    return over_accept(_DRAFT, _TARGET, epsilon)


def _new_token_from_target() -> Claim:
    made = output_distribution(_DRAFT, _TARGET, lossless(_DRAFT, _TARGET), _TARGET)
    bias = total_variation(made, _TARGET)
    turn = crossing(lambda share: _target_drawn_bias(share) - 0.01, 0.0, 1.0)
    return Claim(
        id="new-token-from-target",
        source=GUIDE,
        quote="if rejected: Discard this token and all following draft tokens … Generate one new "
        "token from target model",
        verdict=judged([bias < _ROUNDING]),
        finding=f"Read literally, this is not lossless: a token drawn from the target itself gives "
        f"({', '.join(f'{each:.4g}' for each in made)}) for a target of "
        f"({', '.join(f'{each:.4g}' for each in _TARGET)}), an error of {bias:.3f} in total "
        f"variation. The token must come from the leftover.",
        flip=f"The error falls below 0.01 once the draft has come {100 * turn:.0f} % of the way to "
        "the target; it is zero only where the two agree, or where nothing is rejected.",
        figures=(
            Figure(label="error, from the target", value=bias, form=".3f"),
            Figure(label="error, from the leftover", value=_lossless_bias(_DRAFT), form=".0e"),
        ),
        chart=_bias_chart("The output law of this rule", 0.0),
        run="residual",
        latex=r"\text{leftover} \propto \max(0,\, q - p)",
        symbols=_MODELS,
    )


def _target_drawn_bias(share: float) -> float:
    """With a draft that has come this share of the way to the target."""
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
        verdict=judged([max(biases) > _ROUNDING, min(overlaps) < 0.7]),
        finding=f"Needed for acceptance, not for exactness. The rule stays exact for any draft law "
        f"over the target’s token ids: a draft that cannot write one of the five tokens, and all "
        f"{len(shuffled)} ways to mix up its ids, leave an error of at most {max(biases):.0e}, but "
        f"acceptance then ranges from {min(overlaps):.2f} to {max(overlaps):.2f}. Here a pair is "
        "refused unless its tokens agree one by one (padding apart), since all odds on the "
        "pages compare the two models on the same token. Schemes for different vocabularies "
        "exist (Timor et al. 2025); they are not computed here.",
        flip=f"A draft that cannot write the fifth token is accepted with chance "
        f"{np.minimum(cut, _TARGET).sum():.2f} instead of 0.70. How a draft with other "
        "tokens would do cannot be computed here.",
        figures=(
            Figure(label="largest error", value=max(biases), form=".0e"),
            Figure(label="lowest acceptance", value=min(overlaps)),
            Figure(label="a token missing", value=float(np.minimum(cut, _TARGET).sum())),
        ),
        chart=_bias_chart("Acceptance of two small laws", 0.0),
    )


def _fewest_rejections() -> Claim:
    draft, target = SWAPPED.draft, SWAPPED.target
    token, block = token_accepted(draft, target, 3), expected_accepted(draft, target, 3)
    accept = lossless(_DRAFT, _TARGET)
    lazier = [reject_chance(_DRAFT, share * accept) for share in (0.5, 0.9, 0.99)]
    turn = first(
        lambda gamma: (
            expected_accepted(draft, target, gamma)
            > token_accepted(draft, target, gamma) + _ROUNDING
        ),
        1,
        8,
    )
    within = all(each > reject_chance(_DRAFT, accept) for each in lazier)
    return Claim(
        id="fewest-rejections",
        source=OVERVIEW,
        quote="… possibly demonstrating that no unbiased algorithm can achieve fewer rejections "
        "than SD.",
        verdict=judged([within, block <= token, _chain(8) >= _chain(1)]),
        finding=f"True within the theorem’s class: one draft, judged token by token, each verdict "
        f"from that token and what came before. Outside it, unbiased rules do better. Block "
        f"verification accepts {block:.3f} of three where the token rule accepts {token:.3f} (two "
        f"swapped tokens); eight drafts at once bring a chain of {_HORIZON} tokens from "
        f"{_chain(1):.3f} to {_chain(8):.3f} rejections.",
        flip=f"Block verification gains from γ = {turn} on, a batch from its second draft.",
        figures=(
            Figure(label="token rule", value=token, form=".3f"),
            Figure(label="block rule", value=block, form=".3f"),
            Figure(label="first gain at γ", value=turn, form=".0f"),
        ),
        chart=chart_of_blocks(3),
        run="rejections",
    )


def chart_of_blocks(gamma: int) -> Chart:
    return Chart(
        page="bias",
        label="Token and block verification over γ",
        settings=(
            ("bias_example", SWAPPED.name),
            ("bias_section", "Whole blocks"),
            ("bias_gamma", gamma),
        ),
    )


def _chain(num_drafts: float) -> float:
    """Expected rejections on the chain."""
    return total_rejections(random_chains(_SEED, _SIZE, _HORIZON), num_drafts)


def _rejections_and_time() -> Claim:
    alpha = 0.9
    rejections = 1 - alpha
    rounds = 1 / expected_tokens(alpha, 5)
    turn = first(lambda gamma: 1 / expected_tokens(alpha, gamma) < 1.05 * rejections, 1, 200)
    return Claim(
        id="rejections-and-time",
        source=OVERVIEW,
        quote="It derives precise formulas for the expected number of rejections, which directly "
        "relates to inference time.",
        verdict=judged([1 / expected_tokens(alpha, 200) < 1.001 * rejections, rounds < 0.11]),
        finding=f"True in the paper’s setting, where drafts cost nothing and reach to the end "
        f"of the text. With γ 5 and α {alpha:.2f} a token costs {rejections:.3f} rejections but "
        f"{rounds:.3f} passes of the target, for most rounds end at γ, not at a rejection. Where "
        "drafting takes time, a long γ does not help.",
        flip=f"At α {alpha:.2f} passes come within 5 % of rejections only from γ = {turn} on.",
        figures=(
            Figure(label="rejections a token", value=rejections, form=".3f"),
            Figure(label="passes a token, γ 5", value=rounds, form=".3f"),
            Figure(label="within 5 % from γ", value=turn, form=".0f"),
        ),
        chart=speed_chart("Tokens a round at the flip", "Tokens a round", alpha=alpha, gamma=turn),
        run="rejections",
    )


def _bias_for_speed() -> Claim:
    steps = [rejection_and_bias(_DRAFT, _TARGET, _over(each / 100)) for each in range(0, 26)]
    distance = total_variation(_DRAFT, _TARGET)
    on_line = all(abs(sum(each) - distance) < _ROUNDING for each in steps)
    turn = crossing(lambda epsilon: reject_chance(_DRAFT, _over(epsilon)) - 1e-9, 0.0, 1.0)
    saved = batch_improvement(_DRAFT, _TARGET, 4)
    return Claim(
        id="bias-for-speed",
        source=OVERVIEW,
        quote="Reducing rejections often requires accepting tokens from the draft model that might "
        "deviate from the large model’s ideal distribution, thus increasing the bias.",
        verdict=judged([on_line]),
        finding=f"Exactly, for one draft token: rejection and least bias add up to the distance of "
        f"the two models, {distance:.2f} on the five-token example, at every ε. “Often” is right: "
        f"four drafts at once save {saved:.3f} of the {distance:.2f} rejections with no bias.",
        flip=f"From ε = {turn:.3f} on nothing is rejected and the bias is all of {distance:.2f}: "
        "the draft alone writes.",
        figures=(
            Figure(label="rejection + bias", value=sum(steps[10])),
            Figure(label="distance", value=distance),
            Figure(label="no rejection from ε", value=turn, form=".3f"),
        ),
        chart=_bias_chart("The Pareto plane at the flip", turn),
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
        verdict=judged([four < one, limit > floor > 0, gains == sorted(gains, reverse=True)]),
        finding=f"On a chain of {_HORIZON} tokens, expected rejections fall from {one:.3f} with "
        f"one draft to {four:.3f} with four, and never below {limit:.3f}. No chain that has as "
        f"many with one draft gets below {floor:.3f}: only the token after a rejection gets "
        "several tries.",
        flip=f"Half of the possible gain comes with {half} drafts; nine tenths take {most}.",
        figures=(
            Figure(label="1 draft", value=one, form=".3f"),
            Figure(label="4 drafts", value=four, form=".3f"),
            Figure(label="without limit", value=limit, form=".3f"),
        ),
        chart=_drafts_chart("Rejections over the number of drafts", half),
        run="drafts",
        latex=r"\mathbb{E}[N_M] \ge \tfrac{1}{2}\big(\mathbb{E}[N_1] - 1\big)",
        symbols=(
            (r"\mathbb{E}", "mean"),
            (r"N_1,\, N_M", "rejections in a text, with one draft and with M"),
        ),
    )


def _batch_accuracy() -> Claim:
    chains = random_chains(_SEED, _SIZE, _HORIZON)
    biases = [batch_bias(chains, each, length=_TEXT) for each in _BATCHES]
    careless = batch_bias(chains, _BATCHES[-1], length=_TEXT, renew=False)
    return Claim(
        id="batch-accuracy",
        source=OVERVIEW,
        quote="… as overly aggressive batching can impact the accuracy of the final result.",
        verdict=judged([max(biases) > _ROUNDING]),
        finding=f"Batch speculation is unbiased at every size (Theorem 3 of the same paper). The "
        f"law of three tokens, worked out on the chain for {', '.join(map(str, _BATCHES))} "
        f"drafts, differs from the target’s by at most {max(biases):.0e}. A different rule can be "
        f"biased: one that held every draft against the first leftover would be off by "
        f"{careless:.3f}.",
        flip="None: no number of drafts makes it biased. More drafts only gain less and less.",
        figures=(
            Figure(label="largest error", value=max(biases), form=".0e"),
            Figure(label="a careless rule", value=careless, form=".3f"),
        ),
        chart=_drafts_chart("What batches of drafts write", 16),
    )


def _drafts_chart(label: str, num_drafts: int) -> Chart:
    """The chain on the page of rejections."""
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
    """The five tokens on the page of bias and speed."""
    return Chart(
        page="bias",
        label=label,
        settings=(("bias_example", REF5.name), ("bias_epsilon", round(epsilon, 3))),
    )
