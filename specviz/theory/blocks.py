"""Block verification: all candidates of a round judged together (Sun et al. 2024).

Token verification stops at the first rejection. Block verification carries one weight,
p_i = min(1, p_(i-1) * target / draft), and a later candidate may rescue earlier ones. Both emit
exactly the target's law. Counts here leave out the extra token of a round.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from specviz.errors import TheoryError
from specviz.theory.rounds import Emitted, Kernel, Stops, Text, never
from specviz.theory.speed import expected_tokens
from specviz.theory.tradeoff import Chances, Law, distribution_pair, law, leftover

Verifier = Literal["token", "block"]

_MAX_STATES = 300_000
_SAME = 1e-12  # relative: weights this close are one weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """For gamma = 1, 2, …: the candidates accepted by each verifier, and what none exceeds."""

    token: tuple[float, ...]
    block: tuple[float, ...]
    bound: tuple[float, ...]


def token_accepted(draft: Chances, target: Chances, gamma: int) -> float:
    """alpha + ... + alpha**gamma with alpha the overlap: Leviathan et al. 2023, eq. 1, less 1."""
    drafted, wanted = distribution_pair(draft, target)
    return expected_tokens(min(1.0, float(np.minimum(drafted, wanted).sum())), gamma) - 1.0


def expected_accepted(draft: Chances, target: Chances, gamma: int) -> float:
    """Candidates that block verification accepts, where no position depends on another.

    Exact: sum over i of E[p_i] (Sun et al. 2024: P(at least i accepted | block) = p_i). The law
    of p_i is carried from position to position, equal values merged.
    """
    return sum(_terms(draft, target, gamma, clip=True))


def accepted_curves(draft: Chances, target: Chances, most: int) -> Curves:
    """The three counts for every gamma up to ``most``."""
    return Curves(
        token=tuple(token_accepted(draft, target, gamma) for gamma in range(1, most + 1)),
        block=tuple(itertools.accumulate(_terms(draft, target, most, clip=True))),
        bound=tuple(itertools.accumulate(_terms(draft, target, most, clip=False))),
    )


def block_weights(
    tokens: Sequence[int], draft: Sequence[Chances], target: Sequence[Chances]
) -> tuple[float, ...]:
    """p_0 = 1, p_1 .. p_gamma, of Sun et al. 2024, algorithm 2: min(1, p_(i-1) target / draft)."""
    weights = [1.0]
    for place, token in enumerate(tokens):
        drafted, wanted = distribution_pair(draft[place], target[place])
        assert drafted[token] > 0.0, "a candidate that the draft cannot draw"
        weights.append(min(1.0, weights[-1] * float(wanted[token] / drafted[token])))
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
    """The exact law of a round's tokens, by enumeration: for small instances, as a check.

    Every block, every number accepted and every extra token; the keys differ in length. It
    is the target's law: Leviathan et al. 2023, appendix A.1; for blocks Sun et al. 2024.
    ``breaks`` is a deliberate fault: a block ends at the first coin that fails.
    """
    if vocabulary**gamma > _MAX_STATES:
        raise TheoryError("That is too many blocks to count.", remedy="Take a smaller γ.")
    emitted: Emitted = {}
    for block, chance in _drafted(draft, gamma, stops):
        laws = [law(draft(block[:place]), "draft") for place in range(len(block))]
        wanted = [law(target(block[:place]), "target") for place in range(len(block) + 1)]
        for accepted, share, after in _outcomes(block, laws, wanted, verifier, breaks):
            for token, odds in enumerate(after):
                key = (*block[:accepted], token)
                emitted[key] = emitted.get(key, 0.0) + chance * share * float(odds)
    return emitted


def accepted_given(
    block: Sequence[int], draft: Sequence[Chances], target: Sequence[Chances], verifier: Verifier
) -> float:
    """Candidates that stand on average once this block was drafted; ``target`` has one law more."""
    drafted = [law(each, "draft") for each in draft]
    wanted = [law(each, "target") for each in target]
    outcomes = _outcomes(block, drafted, wanted, verifier, breaks=False)
    return sum(count * share for count, share, _ in outcomes)


def _drafted(draft: Kernel, gamma: int, stops: Stops) -> list[tuple[Text, float]]:
    """Every block and its chance; shorter ones where ``stops`` ended the drafting."""
    whole: list[tuple[Text, float]] = []
    growing: list[tuple[Text, float]] = [((), 1.0)]
    for _ in range(gamma):
        whole += [each for each in growing if stops(each[0])]
        growing = [
            ((*block, token), chance * odds)
            for block, chance in growing
            if not stops(block)
            for token, odds in enumerate(law(draft(block), "draft").tolist())
            if odds > 0.0
        ]
    return whole + growing


def _outcomes(
    block: Sequence[int],
    draft: Sequence[Law],
    target: Sequence[Law],
    verifier: Verifier,
    breaks: bool,
) -> list[tuple[int, float, Law]]:
    """Each number accepted, its chance, and the law of the token after."""
    if verifier == "block":
        weights = block_weights(block, draft, target)
        passing = [_chance(weights, place, draft, target) for place in range(1, len(weights))]
        ends = _first_failed(passing) if breaks else _last_passed(passing)
        afters = [_after(weights[place], place, draft, target) for place in range(len(ends))]
        return list(zip(range(len(ends)), ends, afters, strict=True))
    odds = [
        min(1.0, float(target[place][token] / draft[place][token]))
        for place, token in enumerate(block)
    ]
    ends = _first_failed(odds)
    afters = [_after(1.0, place, draft, target) for place in range(len(ends))]
    return list(zip(range(len(ends)), ends, afters, strict=True))


def _first_failed(chances: Sequence[float]) -> list[float]:
    """The chance that so many coins pass before the first that fails."""
    survived = np.cumprod([1.0, *chances])
    return [*(survived[:-1] * (1.0 - np.asarray(chances))).tolist(), float(survived[-1])]


def _last_passed(chances: Sequence[float]) -> list[float]:
    """The chance that each coin is the last that passes; the first place is that none does."""
    return [
        passed * float(np.prod([1.0 - each for each in chances[place:]]))
        for place, passed in enumerate((1.0, *chances))
    ]


def _chance(
    weights: Sequence[float], place: int, draft: Sequence[Chances], target: Sequence[Chances]
) -> float:
    """h_i: the odds that a block cut after ``place`` candidates is kept."""
    weight = weights[place]
    if place == len(weights) - 1:
        return weight
    drafted, wanted = distribution_pair(draft[place], target[place])
    rest = float(np.maximum(weight * wanted - drafted, 0.0).sum())
    whole = rest + 1.0 - weight
    return rest / whole if whole > 0.0 else 1.0


def _after(weight: float, place: int, draft: Sequence[Chances], target: Sequence[Chances]) -> Law:
    """The law of the extra token; its residual carries the weight of what was accepted."""
    wanted = law(target[place], "target")
    if place == len(draft):
        return wanted
    rest = np.maximum(weight * wanted - law(draft[place], "draft"), 0.0)
    total = float(rest.sum())
    return rest / total if total > 0.0 else leftover(draft[place], target[place])


def _terms(draft: Chances, target: Chances, gamma: int, *, clip: bool) -> list[float]:
    """E[min(1, weight)] for i = 1 .. gamma, weights cut at 1 on the way or only when read."""
    assert gamma >= 0, gamma
    drafted, wanted = distribution_pair(draft, target)
    chance = drafted[drafted > 0.0]
    ratio = wanted[drafted > 0.0] / chance
    values, shares, terms = np.ones(1), np.ones(1), list[float]()
    for _ in range(gamma):
        if len(values) * len(ratio) > _MAX_STATES:
            raise TheoryError(
                f"γ = {gamma} with {len(ratio)} tokens is too much to count exactly.",
                remedy="Take a smaller γ or fewer tokens.",
            )
        products = np.outer(values, ratio).ravel()
        cut = np.minimum(1.0, products)
        values, shares = _merged(cut if clip else products, np.outer(shares, chance).ravel())
        terms.append(float(np.minimum(1.0, values) @ shares))
    return terms


def _merged(values: NDArray[np.float64], shares: NDArray[np.float64]) -> tuple[Law, Law]:
    """Equal weights as one; their mean is kept, so rounding does not build up."""
    order = np.argsort(values)
    values, shares = values[order], shares[order]
    fresh = np.diff(values, prepend=-1.0) > _SAME * values
    starts = np.flatnonzero(fresh)
    joined = np.add.reduceat(shares, starts)
    means = np.add.reduceat(values * shares, starts) / np.where(joined > 0.0, joined, 1.0)
    return means, joined
