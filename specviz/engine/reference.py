"""A complete reference implementation of speculative decoding, to be read top to bottom.

A model is a function from a text to the distribution `[vocabulary]` of the next token. Uniforms in
[0, 1) decide every draw. There is no KV cache, no trace and no torch tensor. The output has exactly
the target's distribution (Leviathan et al. 2023; Chen et al. 2023). At temperature 0 the
distributions are one-hot; nothing else changes. This module calls the target for every candidate.
The real engine (``decoding/speculation.py``) makes one target pass per round instead. Tests check
that both emit the same tokens.
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
    """Return ``length`` tokens after the prompt; a round drafts at most ``gamma`` candidates."""
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
    """Return the tokens of one round: the accepted candidates, then a recovered or bonus token."""
    # Draft: the draft model proposes candidates, one after the other.
    candidates: Text = ()
    for i in range(count):
        candidates += (draw(draft(text + candidates), uniforms[draft_slot(i)]),)

    # Verify: accept a candidate with probability min(1, target / draft).
    for i, token in enumerate(candidates):
        accepted = candidates[:i]
        draft_probs, target_probs = draft(text + accepted), target(text + accepted)
        if uniforms[verdict_slot(i)] * draft_probs[token] < target_probs[token]:
            continue
        # Recover: replace the first rejected candidate by a draw from the residual. Later
        # candidates are discarded, untested.
        residual = np.maximum(target_probs - draft_probs, 0.0)
        distribution = residual if residual.any() else target_probs
        return (*accepted, draw(distribution, uniforms[EXTRA_SLOT]))

    # Bonus: all candidates are accepted, so one more token is drawn from the target.
    return (*candidates, draw(target(text + candidates), uniforms[EXTRA_SLOT]))


def draw(distribution: np.ndarray, uniform: float) -> int:
    """Return a token drawn by the inverse CDF; ``distribution`` need not be normalised."""
    cumulated = np.cumsum(distribution, dtype=np.float64)
    return int(np.searchsorted(cumulated, uniform * cumulated[-1], side="right"))
