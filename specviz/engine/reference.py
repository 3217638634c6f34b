"""Speculative decoding, the whole of it, to be read from top to bottom.

Two models, each a function from a text to the distribution [vocabulary] of its next token, and
numbers from [0, 1) that decide every draw: no cache, no record, no tensors. What is written has
exactly the law of the target alone (Leviathan et al. 2023; Chen et al. 2023); at temperature 0
the distributions are one-hots and nothing else changes. The engine that runs does the same with
one pass of the target a round, and the tests hold it to this, token for token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from specviz.engine.decoding.sampling import EXTRA_SLOT, draft_slot, keyed_uniforms, verdict_slot

Text = tuple[int, ...]
Model = Callable[[Text], np.ndarray]


def decode(
    draft: Model, target: Model, prompt: Text, *, gamma: int, length: int, seed: int
) -> Text:
    """The ``length`` tokens after the prompt, in rounds of at most ``gamma`` candidates."""
    text, end = prompt, len(prompt) + length
    index = 0
    while len(text) < end:
        count = min(gamma, end - len(text))
        text += play_round(draft, target, text, count, keyed_uniforms(seed, index, count).tolist())
        index += 1
    return text[len(prompt) : end]


def play_round(
    draft: Model, target: Model, text: Text, count: int, uniforms: Sequence[float]
) -> Text:
    """What one round writes: the candidates that stand, and always one token more."""
    # Draft: the small model writes ahead, one token after the other.
    candidates: Text = ()
    for i in range(count):
        candidates += (draw(draft(text + candidates), uniforms[draft_slot(i)]),)

    # Verify: a candidate stands with the chance min(1, target / draft).
    for i, token in enumerate(candidates):
        accepted = candidates[:i]
        draft_probs, target_probs = draft(text + accepted), target(text + accepted)
        if uniforms[verdict_slot(i)] * draft_probs[token] < target_probs[token]:
            continue
        # Residual: the first that falls is replaced from what the draft gave too little of;
        # those after it are discarded, untested.
        residual = np.maximum(target_probs - draft_probs, 0.0)
        law = residual if residual.any() else target_probs
        return (*accepted, draw(law, uniforms[EXTRA_SLOT]))

    # Bonus: all stand, and the target has been asked what follows them anyway.
    return (*candidates, draw(target(text + candidates), uniforms[EXTRA_SLOT]))


def draw(law: np.ndarray, uniform: float) -> int:
    """The first token whose cumulated probability exceeds the uniform's share of the whole."""
    cumulated = np.cumsum(law, dtype=np.float64)
    return int(np.searchsorted(cumulated, uniform * cumulated[-1], side="right"))
