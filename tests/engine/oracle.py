"""What speculative decoding should do, in numpy and Python floats, and nothing of the engine.

Distributions by prefix are given as functions, so that the models may depend on their
context. Laws of several tokens are enumerated: every candidate sequence, every verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

Prefix = tuple[int, ...]
Conditional = Callable[[Prefix], np.ndarray]  # the law [vocabulary] of the token after a prefix
JointLaw = dict[Prefix, float]


def odds(draft: np.ndarray, target: np.ndarray, epsilon: float = 0.0) -> np.ndarray:
    """Chance that each token is accepted once drafted; 1 where the draft never goes."""
    safe = np.where(draft > 0, draft, 1.0)
    return np.where(draft > 0, np.minimum(1.0, (target + epsilon) / safe), 1.0)


def recovery(draft: np.ndarray, target: np.ndarray, source: str = "leftover") -> np.ndarray:
    """The law of the token after a rejection."""
    if source == "target":
        return target
    if source == "draft":
        return draft
    left = np.maximum(target - draft, 0.0)
    return left / left.sum() if left.sum() > 0 else target


def emitted_distribution(
    draft: np.ndarray, target: np.ndarray, epsilon: float = 0.0, source: str = "leftover"
) -> np.ndarray:
    """Law of one verified position: the accepted part, and the recovered part."""
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


def target_joint(target: Conditional, depth: int, vocabulary: int) -> JointLaw:
    """Law of the first ``depth`` tokens of the target by itself."""
    law: JointLaw = {}
    for tokens in product(range(vocabulary), repeat=depth):
        chance = 1.0
        for position, token in enumerate(tokens):
            chance *= float(target(tokens[:position])[token])
        law[tokens] = chance
    return law


def speculative_joint(
    draft: Conditional,
    target: Conditional,
    gamma: int,
    depth: int,
    vocabulary: int,
    *,
    epsilon: float = 0.0,
    source: str = "leftover",
) -> JointLaw:
    """Law of the first ``depth`` tokens that whole rounds of ``gamma`` candidates emit."""
    law = dict.fromkeys(product(range(vocabulary), repeat=depth), 0.0)
    reached: JointLaw = {(): 1.0}
    while reached:
        prefix, chance = reached.popitem()
        for tokens, share in _round(draft, target, prefix, gamma, vocabulary, epsilon, source):
            text = (*prefix, *tokens)
            if len(text) >= depth:
                law[text[:depth]] += chance * share
            else:
                reached[text] = reached.get(text, 0.0) + chance * share
    return law


def _round(
    draft: Conditional,
    target: Conditional,
    prefix: Prefix,
    gamma: int,
    vocabulary: int,
    epsilon: float,
    source: str,
) -> list[tuple[Prefix, float]]:
    """Every way a round can go: what it emits, and how likely."""
    ways: list[tuple[Prefix, float]] = []
    for candidates in product(range(vocabulary), repeat=gamma):
        standing = 1.0  # drafted, and accepted so far
        ahead = [draft((*prefix, *candidates[:i]))[candidates[i]] for i in range(gamma)]
        drafted = float(np.prod(ahead))
        if drafted == 0.0:
            continue
        for i, token in enumerate(candidates):
            here = (*prefix, *candidates[:i])
            accept = float(odds(draft(here), target(here), epsilon)[token])
            rejected = drafted * standing * (1.0 - accept)
            ways.extend(
                _extras(candidates[:i], rejected, recovery(draft(here), target(here), source))
            )
            standing *= accept
        ways.extend(_extras(candidates, drafted * standing, target((*prefix, *candidates))))
    return ways


def _extras(accepted: Prefix, chance: float, law: np.ndarray) -> list[tuple[Prefix, float]]:
    return [((*accepted, token), chance * float(law[token])) for token in range(len(law))]


def verdicts(
    uniforms: Sequence[float],
    draft_probs: Sequence[float],
    target_probs: Sequence[float],
    epsilon: float = 0.0,
) -> int:
    """How many candidates stand, by hand."""
    count = 0
    for uniform, draft, target in zip(uniforms, draft_probs, target_probs, strict=True):
        if not uniform * draft < target + epsilon:
            break
        count += 1
    return count


def draw(law: Sequence[float], uniform: float) -> int:
    """The first token whose cumulated share exceeds the uniform, by hand."""
    total = 0.0
    for weight in law:
        total += weight
    level, mass = uniform * total, 0.0
    for token, weight in enumerate(law):
        mass += weight
        if mass > level:
            return token
    raise AssertionError("a uniform below 1 always finds a token")
