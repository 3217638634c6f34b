"""Rounds along a text for other methods, against enumeration of all their rounds.

The rules themselves enumerate what a round emits; here rounds are chained until they make up the
text. This does not use the odds of the text's tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from specviz.figures.expectation import acceptance_along
from specviz.record.scores import TextScores
from specviz.theory.along import Walk, walks_along
from specviz.theory.blocks import emitted_distribution
from specviz.theory.rounds import Emitted, Kernel, Text, chain_distribution
from tests.oracles.couplings import coupled, match, token_matching_rule
from tests.oracles.own_odds import coupled_odds, match_odds, multi_draft_odds, token_odds
from tests.oracles.trees import multi_draft_distribution, tree_distribution
from tests.theory.kernels import kernel

VOCABULARY, LENGTH = 3, 5
RoundOf = Callable[[Kernel, Kernel, int], Emitted]


def kernels(seed: int) -> tuple[Kernel, Kernel]:
    draft, target = (kernel(seed, side, VOCABULARY, LENGTH) for side in (0, 1))
    return draft, target


def after(model: Kernel, text: Text) -> Kernel:
    return lambda more: model((*text, *more))


def chance_of(model: Kernel, text: Text) -> float:
    return float(np.prod([model(text[:at])[token] for at, token in enumerate(text)]))


def enumerated(round_of: RoundOf, draft: Kernel, target: Kernel, text: Text, gamma: int) -> Walk:
    """Return the whole rounds, given that the text was emitted; a limit ends it."""
    states = {
        0: (1.0, 0.0, 0.0)
    }  # by tokens emitted: probability, and its products with rounds and tokens
    rounds = tokens = written = 0.0
    for at in range(LENGTH + 1):
        chance, so_far, made = states.pop(at, (0.0, 0.0, 0.0))
        if at + gamma + 1 > LENGTH:  # no whole round left
            rest = chance_of(after(target, text[:at]), text[at:])
            rounds, tokens, written = (
                rounds + so_far * rest, tokens + made * rest, written + chance * rest,
            )  # fmt: skip
            continue
        emitted = round_of(after(draft, text[:at]), after(target, text[:at]), gamma)
        for part, odds in emitted.items():
            if part == text[at : at + len(part)]:
                old = states.get(at + len(part), (0.0, 0.0, 0.0))
                new = (chance, so_far + chance, made + len(part) * chance)
                states[at + len(part)] = (
                    old[0] + odds * new[0], old[1] + odds * new[1], old[2] + odds * new[2],
                )  # fmt: skip
    assert written == pytest.approx(chance_of(target, text), abs=1e-12)  # the rule is exact
    return Walk(rounds=rounds / written, tokens=tokens / written, bonuses=0.0)


def scores_of(odds: Sequence[float], **changes: tuple[float, ...]) -> TextScores:
    nothing = (0.5,) * len(odds)
    scores = TextScores(
        odds=tuple(odds), overlaps=nothing, text_probs=nothing, draft_entropies=nothing,
        target_entropies=nothing, matches=(), agrees=(),
    )  # fmt: skip
    return replace(scores, **changes)


def distributions_along(
    draft: Kernel, target: Kernel, text: Text
) -> list[tuple[np.ndarray, np.ndarray, int]]:
    return [
        (np.asarray(draft(text[:at])), np.asarray(target(text[:at])), token)
        for at, token in enumerate(text)
    ]


def texts_of(target: Kernel) -> list[Text]:
    every = itertools.product(range(VOCABULARY), repeat=LENGTH)
    return [text for text in every if chance_of(target, text) > 0.0]


CHAINS = {
    "lossless": (token_odds, chain_distribution),
    "match": (match_odds, lambda d, t, g: chain_distribution(d, t, g, token_matching_rule(match))),
    "coupled": (
        coupled_odds,
        lambda d, t, g: chain_distribution(d, t, g, token_matching_rule(coupled)),
    ),
}


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("rule", CHAINS)
def test_chains_with_each_rule(rule: str, gamma: int) -> None:
    odds_of, round_of = CHAINS[rule]
    draft, target = kernels(7)
    differ = 0
    for text in texts_of(target)[::9]:
        odds = [odds_of(*each) for each in distributions_along(draft, target, text)]
        (found,) = walks_along(acceptance_along(scores_of(odds)), (gamma,))
        counted = enumerated(round_of, draft, target, text, gamma)
        assert (found.rounds, found.tokens) == pytest.approx((counted.rounds, counted.tokens))
        differ += found.tokens > found.rounds
    assert differ > 3


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("count", [2, 3])
def test_several_drafts_with_replacement(count: int, gamma: int) -> None:
    """The first candidate of a round has higher odds than later ones."""
    draft, target = kernels(11)
    for text in texts_of(target)[::9]:
        distributions = distributions_along(draft, target, text)
        first = tuple(multi_draft_odds(*each, count) for each in distributions)
        scores = scores_of([token_odds(*each) for each in distributions], first_odds=first)
        (found,) = walks_along(acceptance_along(scores), (gamma,))
        counted = enumerated(
            lambda d, t, g: multi_draft_distribution(d, t, count, g, replacement=True),
            draft, target, text, gamma,
        )  # fmt: skip
        assert (found.rounds, found.tokens) == pytest.approx((counted.rounds, counted.tokens))


@pytest.mark.parametrize("threshold", [0.2, 0.5])
def test_drafting_that_stops_after_unlikely_tokens(threshold: float) -> None:
    draft, target = kernels(13)
    ended = 0
    for text in texts_of(target)[::5]:
        distributions = distributions_along(draft, target, text)
        sure = tuple(float(drafted[token]) for drafted, _, token in distributions)
        scores = scores_of([token_odds(*each) for each in distributions], sureness=sure)
        (found,) = walks_along(acceptance_along(scores, threshold), (3,))
        (usual,) = walks_along(acceptance_along(scores), (3,))

        def round_of(own: Kernel, other: Kernel, gamma: int) -> Emitted:
            def unsure(candidates: Text) -> bool:
                return bool(candidates) and bool(own(candidates[:-1])[candidates[-1]] < threshold)

            return chain_distribution(own, other, gamma, stops=unsure)

        counted = enumerated(round_of, draft, target, text, 3)
        assert (found.rounds, found.tokens) == pytest.approx((counted.rounds, counted.tokens))
        ended += found.tokens / found.rounds < usual.tokens / usual.rounds - 1e-9
    assert ended > 3


# Bounds


def mean_tokens(round_of: RoundOf, draft: Kernel, target: Kernel, gamma: int) -> float:
    """Return tokens per round over all texts, weighted by the target."""
    rounds = tokens = 0.0
    for text in texts_of(target):
        walk = enumerated(round_of, draft, target, text, gamma)
        rounds += chance_of(target, text) * walk.rounds
        tokens += chance_of(target, text) * walk.tokens
    return tokens / rounds


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(each, marks=pytest.mark.thorough) for each in (2, 3))]
)
def test_blocks_and_trees_emit_no_fewer_tokens_in_the_mean(seed: int) -> None:
    draft, target = kernels(seed)
    rounds = tokens = 0.0
    for text in texts_of(target):
        odds = [token_odds(*each) for each in distributions_along(draft, target, text)]
        (walk,) = walks_along(odds, (2,))
        rounds += chance_of(target, text) * walk.rounds
        tokens += chance_of(target, text) * walk.tokens
    alone = tokens / rounds
    together = mean_tokens(
        lambda d, t, g: emitted_distribution(d, t, g, VOCABULARY, "block"), draft, target, 2
    )
    assert together >= alone - 1e-12
    for shape in ((2, 1), (2, 2), (1, 2)):
        tree = mean_tokens(lambda d, t, _, s=shape: tree_distribution(d, t, s), draft, target, 2)
        assert tree > alone + 1e-6
