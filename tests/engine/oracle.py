"""Reference results of speculative decoding in numpy, without any code of the engine.

Models are functions from a prefix to a distribution. Joint distributions of several tokens are
enumerated over every candidate sequence and every verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

Prefix = tuple[int, ...]
Conditional = Callable[[Prefix], np.ndarray]  # distribution [vocabulary] after a prefix
JointDistribution = dict[Prefix, float]


def odds(draft: np.ndarray, target: np.ndarray, epsilon: float = 0.0) -> np.ndarray:
    """Acceptance probability of each token once drafted; 1 where the draft has probability 0."""
    safe = np.where(draft > 0, draft, 1.0)
    return np.where(draft > 0, np.minimum(1.0, (target + epsilon) / safe), 1.0)


def recovery(draft: np.ndarray, target: np.ndarray, source: str = "leftover") -> np.ndarray:
    """Distribution of the token after a rejection."""
    if source == "target":
        return target
    if source == "draft":
        return draft
    left = np.maximum(target - draft, 0.0)
    return left / left.sum() if left.sum() > 0 else target


def emitted_distribution(
    draft: np.ndarray, target: np.ndarray, epsilon: float = 0.0, source: str = "leftover"
) -> np.ndarray:
    """Emitted distribution of one verified position: accepted part plus recovered part."""
    accepted = draft * odds(draft, target, epsilon)
    return accepted + (1.0 - accepted.sum()) * recovery(draft, target, source)


def total_variation(one: np.ndarray, other: np.ndarray) -> float:
    return 0.5 * float(np.abs(one - other).sum())


def processed(logits: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """Temperature, then top-k, then top-p, over one row, in double precision."""
    scaled = logits.astype(np.float64) / temperature
    weights = np.exp(scaled - scaled.max())
    order = np.argsort(-weights, kind="stable")
    if top_k:
        weights[order[top_k:]] = 0.0
    weights /= weights.sum()
    mass = 0.0
    for token in order:
        if mass >= top_p:
            weights[token] = 0.0
        mass += weights[token]
    return weights / weights.sum()


def target_joint(target: Conditional, depth: int, vocabulary: int) -> JointDistribution:
    """Joint distribution of the target's first ``depth`` tokens."""
    distribution: JointDistribution = {}
    for tokens in product(range(vocabulary), repeat=depth):
        chance = 1.0
        for position, token in enumerate(tokens):
            chance *= float(target(tokens[:position])[token])
        distribution[tokens] = chance
    return distribution


def speculative_joint(
    draft: Conditional,
    target: Conditional,
    gamma: int,
    depth: int,
    vocabulary: int,
    *,
    epsilon: float = 0.0,
    source: str = "leftover",
) -> JointDistribution:
    """Joint distribution of the first ``depth`` tokens of rounds of ``gamma`` candidates."""
    distribution = dict.fromkeys(product(range(vocabulary), repeat=depth), 0.0)
    reached: JointDistribution = {(): 1.0}
    while reached:
        prefix, chance = reached.popitem()
        for tokens, share in _round(draft, target, prefix, gamma, vocabulary, epsilon, source):
            text = (*prefix, *tokens)
            if len(text) >= depth:
                distribution[text[:depth]] += chance * share
            else:
                reached[text] = reached.get(text, 0.0) + chance * share
    return distribution


def _round(
    draft: Conditional,
    target: Conditional,
    prefix: Prefix,
    gamma: int,
    vocabulary: int,
    epsilon: float,
    source: str,
) -> list[tuple[Prefix, float]]:
    """Every possible outcome of a round: emitted tokens and probability."""
    outcomes: list[tuple[Prefix, float]] = []
    for candidates in product(range(vocabulary), repeat=gamma):
        accepted = 1.0  # drafted, and accepted so far
        ahead = [draft((*prefix, *candidates[:i]))[candidates[i]] for i in range(gamma)]
        drafted = float(np.prod(ahead))
        if drafted == 0.0:
            continue
        for i, token in enumerate(candidates):
            here = (*prefix, *candidates[:i])
            accept = float(odds(draft(here), target(here), epsilon)[token])
            rejected = drafted * accepted * (1.0 - accept)
            outcomes.extend(
                _extras(candidates[:i], rejected, recovery(draft(here), target(here), source))
            )
            accepted *= accept
        outcomes.extend(_extras(candidates, drafted * accepted, target((*prefix, *candidates))))
    return outcomes


def _extras(
    accepted: Prefix, chance: float, distribution: np.ndarray
) -> list[tuple[Prefix, float]]:
    return [
        ((*accepted, token), chance * float(distribution[token]))
        for token in range(len(distribution))
    ]


def verdicts(
    uniforms: Sequence[float],
    draft_probs: Sequence[float],
    target_probs: Sequence[float],
    epsilon: float = 0.0,
) -> int:
    """Number of accepted candidates, by hand."""
    count = 0
    for uniform, draft, target in zip(uniforms, draft_probs, target_probs, strict=True):
        if not uniform * draft < target + epsilon:
            break
        count += 1
    return count


def draw(distribution: Sequence[float], uniform: float) -> int:
    """The first token whose cumulative probability exceeds the uniform, by hand."""
    total = 0.0
    for weight in distribution:
        total += weight
    level, mass = uniform * total, 0.0
    for token, weight in enumerate(distribution):
        mass += weight
        if mass > level:
            return token
    raise AssertionError("a uniform below 1 always finds a token")
