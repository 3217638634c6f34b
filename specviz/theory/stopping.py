"""When drafting ends before γ candidates, and what that does to the text.

Exact is every reason that was known before the next draw, while all that was drawn is judged.
Throwing a drawn candidate away for what it is biases the text.
"""

from __future__ import annotations

from specviz.theory.rounds import Judged, Judging, Kernel, Stops, Text, by_odds
from specviz.theory.tradeoff import Chances, distribution_pair, law


def behind_unlikely(draft: Kernel, threshold: float) -> Stops:
    """Behind a candidate with a draft chance below this, which is still judged (transformers)."""

    def stops(candidates: Text) -> bool:
        return bool(candidates) and law(draft(candidates[:-1]), "draft")[candidates[-1]] < threshold

    return stops


def before_unsure(draft: Kernel, threshold: float) -> Stops:
    """Before a draw where no token has a draft chance as high as this; nothing is wasted."""
    return lambda candidates: float(law(draft(candidates), "draft").max()) < threshold


def dropping(threshold: float) -> Judging:
    """Biased: a drawn candidate below the threshold is thrown away, and the round ends there with a
    token of the target's own."""

    def judged(draft: Chances, target: Chances) -> Judged:
        drafted, wanted = distribution_pair(draft, target)
        usual, kept = by_odds(drafted, wanted), drafted >= threshold
        stands = usual.stands * kept
        dropped = float(drafted[~kept].sum())
        fallen = max(0.0, 1.0 - float(stands.sum()) - dropped)
        rest = usual.instead / max(float(usual.instead.sum()), 1e-300)
        return Judged(stands=stands, instead=fallen * rest + dropped * wanted)

    return judged
