"""What both models say of a text that is known: one value at each of its tokens.

The odds at a token x are min(1, draft(x) / target(x)): given that the target wrote the text, the
chance that x was an accepted candidate. They are of the law that the text was written under, its
temperature, top-k and top-p, and of no other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TextScores:
    """``overlaps``: sum min(draft, target), acceptance before the token is drawn.

    Entropies are in nats. ``matches``: the token is the draft's likeliest; ``agrees``: both models
    have the same likeliest token. Where the law forbids the token, its odds are 0.
    """

    odds: tuple[float, ...]
    overlaps: tuple[float, ...]
    text_probs: tuple[float, ...]  # of the target
    draft_entropies: tuple[float, ...]
    target_entropies: tuple[float, ...]
    matches: tuple[bool, ...]
    agrees: tuple[bool, ...]

    @property
    def impossible_at(self) -> int | None:
        """The first token that the target never writes under this law."""
        return next((at for at, prob in enumerate(self.text_probs) if prob == 0.0), None)
