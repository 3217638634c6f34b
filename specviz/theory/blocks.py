"""Block verification: all candidates of a round are verified jointly (Sun et al. 2024).

Token verification stops at the first rejection. Block verification tests the first i candidates
for every i and accepts the longest prefix that passes. The test depends on the weight
p_i = min(1, p_(i-1) * target / draft). With either verifier, the emitted text has exactly the
target's distribution. Counts here exclude the extra token of a round, recovered or bonus.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from specviz.errors import TheoryError
from specviz.theory.rounds import Emitted, Kernel, Stops, Text, never
from specviz.theory.speed import expected_tokens
from specviz.theory.tradeoff import (
    Chances,
    Distribution,
    as_distribution,
    distribution_pair,
    residual_distribution,
)
from specviz.values import Value

Verifier = Literal["token", "block"]

_MAX_STATES = 300_000
_SAME = 1e-12  # weights within this relative distance are merged


class Curves(Value):
    """Expected accepted candidates at gamma = 1, 2, …

    ``token`` and ``block`` hold the values of token and block verification. ``bound`` holds an
    upper bound for any verifier.
    """

    token: tuple[float, ...]
    block: tuple[float, ...]
    bound: tuple[float, ...]


def token_accepted(draft: Chances, target: Chances, gamma: int) -> float:
    """Return the mean number of candidates that token verification accepts.

    The mean is alpha + ... + alpha**gamma with alpha = sum min(draft, target): eq. 1 of Leviathan
    et al. 2023, minus 1.
    """
    draft_probs, target_probs = distribution_pair(draft, target)
    return (
        expected_tokens(min(1.0, float(np.minimum(draft_probs, target_probs).sum())), gamma) - 1.0
    )


def expected_accepted(draft: Chances, target: Chances, gamma: int) -> float:
    """Return the mean number of candidates that block verification accepts.

    All positions have the same two distributions and are independent. The exact mean is the
    sum of E[p_i], since P(at least i accepted | block) = p_i (Sun et al. 2024). The distribution of
    p_i is computed position by position, and equal values of p_i are merged.
    """
    return sum(_terms(draft, target, gamma, clip=True))


def accepted_curves(draft: Chances, target: Chances, most: int) -> Curves:
    """Return the mean accepted candidates of token and of block verification, and the bound.

    Each has one value for every gamma from 1 to ``most``.
    """
    return Curves(
        token=tuple(token_accepted(draft, target, gamma) for gamma in range(1, most + 1)),
        block=tuple(itertools.accumulate(_terms(draft, target, most, clip=True))),
        bound=tuple(itertools.accumulate(_terms(draft, target, most, clip=False))),
    )


def block_weights(
    tokens: Sequence[int], draft: Sequence[Chances], target: Sequence[Chances]
) -> tuple[float, ...]:
    """Return the weights p_0, ..., p_gamma with which block verification tests these candidates.

    p_0 = 1 and p_i = min(1, p_(i-1) * target / draft) at candidate i: Sun et al. 2024,
    algorithm 2.
    """
    weights = [1.0]
    for place, token in enumerate(tokens):
        draft_probs, target_probs = distribution_pair(draft[place], target[place])
        assert draft_probs[token] > 0.0, "the draft cannot draw this candidate"
        weights.append(min(1.0, weights[-1] * float(target_probs[token] / draft_probs[token])))
    return tuple(weights)


def emitted_distribution(
    draft: Kernel,
    target: Kernel,
    gamma: int,
    vocabulary: int,
    verifier: Verifier,
    *,
    stops: Stops = never,
    breaks: bool = False,
) -> Emitted:
    """Return the exact distribution of the tokens that a round emits, by enumeration.

    The emitted texts differ in length. If each is continued by sampling from the target, the
    results have the target's distribution: Leviathan et al. 2023, appendix A.1, for token
    verification; Sun et al. 2024 for block verification.

    Args:
        draft: Returns the draft's next-token distribution after the given candidates.
        target: Returns the target's next-token distribution after the given candidates.
        gamma: The candidates per round.
        vocabulary: The number of tokens in the vocabulary.
        verifier: Token or block verification.
        stops: Returns whether drafting ends after the given candidates.
        breaks: Whether to inject a bug: no candidate after the first failed test is accepted.

    Returns:
        The probability of every accepted prefix followed by its extra token.

    Raises:
        TheoryError: There are too many sequences of candidates to enumerate.
    """
    if vocabulary**gamma > _MAX_STATES:
        raise TheoryError("Too many blocks to enumerate.", remedy="Use a smaller γ.")
    emitted: Emitted = {}
    for block, chance in _drafted(draft, gamma, stops):
        draft_probs = [
            as_distribution(draft(block[:place]), "draft") for place in range(len(block))
        ]
        target_probs = [
            as_distribution(target(block[:place]), "target") for place in range(len(block) + 1)
        ]
        for accepted, share, after in _outcomes(block, draft_probs, target_probs, verifier, breaks):
            for token, odds in enumerate(after):
                key = (*block[:accepted], token)
                emitted[key] = emitted.get(key, 0.0) + chance * share * float(odds)
    return emitted


def accepted_given(
    block: Sequence[int], draft: Sequence[Chances], target: Sequence[Chances], verifier: Verifier
) -> float:
    """Return the mean number of accepted candidates if the candidates of a round are ``block``.

    ``target`` has one more distribution than ``draft``: for the token after the last candidate.
    """
    draft_probs = [as_distribution(each, "draft") for each in draft]
    target_probs = [as_distribution(each, "target") for each in target]
    outcomes = _outcomes(block, draft_probs, target_probs, verifier, breaks=False)
    return sum(count * share for count, share, _ in outcomes)


def _drafted(draft: Kernel, gamma: int, stops: Stops) -> list[tuple[Text, float]]:
    """Return every sequence of candidates that a round can draft, with its probability.

    A sequence has fewer than ``gamma`` candidates if ``stops`` ended drafting.
    """
    whole: list[tuple[Text, float]] = []
    growing: list[tuple[Text, float]] = [((), 1.0)]
    for _ in range(gamma):
        whole += [each for each in growing if stops(each[0])]
        growing = [
            ((*block, token), chance * odds)
            for block, chance in growing
            if not stops(block)
            for token, odds in enumerate(as_distribution(draft(block), "draft").tolist())
            if odds > 0.0
        ]
    return whole + growing


def _outcomes(
    block: Sequence[int],
    draft: Sequence[Distribution],
    target: Sequence[Distribution],
    verifier: Verifier,
    breaks: bool,
) -> list[tuple[int, float, Distribution]]:
    """Return how many candidates of ``block`` can be accepted.

    Each possible number comes with its probability and the distribution of the next token.
    """
    if verifier == "block":
        weights = block_weights(block, draft, target)
        passing = [
            _pass_probability(weights, place, draft, target) for place in range(1, len(weights))
        ]
        ends = _first_failed(passing) if breaks else _last_passed(passing)
        afters = [
            _next_distribution(weights[place], place, draft, target) for place in range(len(ends))
        ]
        return list(zip(range(len(ends)), ends, afters, strict=True))
    odds = [
        min(1.0, float(target[place][token] / draft[place][token]))
        for place, token in enumerate(block)
    ]
    ends = _first_failed(odds)
    afters = [_next_distribution(1.0, place, draft, target) for place in range(len(ends))]
    return list(zip(range(len(ends)), ends, afters, strict=True))


def _first_failed(chances: Sequence[float]) -> list[float]:
    """Return the probability that exactly n tests pass before the first failure, for every n.

    n runs from 0 to the number of tests; ``chances`` holds each test's probability of passing.
    """
    survived = np.cumprod([1.0, *chances])
    return [*(survived[:-1] * (1.0 - np.asarray(chances))).tolist(), float(survived[-1])]


def _last_passed(chances: Sequence[float]) -> list[float]:
    """Return the probability that test n is the last one that passes, for every n.

    n runs from 0, which means that none passes, to the number of tests. ``chances`` holds each
    test's probability of passing.
    """
    return [
        passed * float(np.prod([1.0 - each for each in chances[place:]]))
        for place, passed in enumerate((1.0, *chances))
    ]


def _pass_probability(
    weights: Sequence[float], place: int, draft: Sequence[Chances], target: Sequence[Chances]
) -> float:
    """Return the probability that the joint test of the first ``place`` candidates passes.

    This is h_i of Sun et al. 2024, with i = ``place``.
    """
    weight = weights[place]
    if place == len(weights) - 1:
        return weight
    draft_probs, target_probs = distribution_pair(draft[place], target[place])
    rest = float(np.maximum(weight * target_probs - draft_probs, 0.0).sum())
    whole = rest + 1.0 - weight
    return rest / whole if whole > 0.0 else 1.0


def _next_distribution(
    weight: float, place: int, draft: Sequence[Chances], target: Sequence[Chances]
) -> Distribution:
    """Return the distribution of the token after ``place`` accepted candidates.

    If all candidates were accepted, this is the target's distribution. Otherwise it is the
    normalised residual max(0, weight * target - draft).
    """
    target_probs = as_distribution(target[place], "target")
    if place == len(draft):
        return target_probs
    rest = np.maximum(weight * target_probs - as_distribution(draft[place], "draft"), 0.0)
    total = float(rest.sum())
    return rest / total if total > 0.0 else residual_distribution(draft[place], target[place])


def _terms(draft: Chances, target: Chances, gamma: int, *, clip: bool) -> list[float]:
    """Return the expected weights of the first i candidates, for i = 1 .. gamma.

    These are E[min(1, w_i)] with w_i = w_(i-1) * target / draft. With ``clip``, w_i is capped at 1
    in every step, so that it equals the weight p_i of block verification.
    """
    assert gamma >= 0, gamma
    draft_probs, target_probs = distribution_pair(draft, target)
    chance = draft_probs[draft_probs > 0.0]
    ratio = target_probs[draft_probs > 0.0] / chance
    values, shares, terms = np.ones(1), np.ones(1), list[float]()
    for _ in range(gamma):
        if len(values) * len(ratio) > _MAX_STATES:
            raise TheoryError(
                f"γ = {gamma} with {len(ratio)} tokens is too large to compute exactly.",
                remedy="Use a smaller γ or fewer tokens.",
            )
        products = np.outer(values, ratio).ravel()
        cut = np.minimum(1.0, products)
        values, shares = _merged(cut if clip else products, np.outer(shares, chance).ravel())
        terms.append(float(np.minimum(1.0, values) @ shares))
    return terms


def _merged(
    values: NDArray[np.float64], shares: NDArray[np.float64]
) -> tuple[Distribution, Distribution]:
    """Merge weights that differ only by rounding; return the weights and their probabilities.

    A merged weight is the mean of its parts. Its probability is the sum of the parts'
    probabilities.
    """
    order = np.argsort(values)
    values, shares = values[order], shares[order]
    fresh = np.diff(values, prepend=-1.0) > _SAME * values
    starts = np.flatnonzero(fresh)
    joined = np.add.reduceat(shares, starts)
    means = np.add.reduceat(values * shares, starts) / np.where(joined > 0.0, joined, 1.0)
    return means, joined
