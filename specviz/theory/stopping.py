"""Rules that end drafting before γ candidates, for exact checks of their bias.

A rule is exact under two conditions: it depends only on what is known before the next draw, and
every drawn candidate is verified. A rule that drops a drawn candidate because of its value biases
the text.
"""

from __future__ import annotations

from specviz.theory.rounds import (
    Kernel,
    PositionOutcome,
    PositionRule,
    Stops,
    Text,
    token_verification,
)
from specviz.theory.tradeoff import Chances, as_distribution, distribution_pair


def after_unlikely(draft: Kernel, threshold: float) -> Stops:
    """Return a rule that stops after a candidate with draft probability below the threshold.

    The candidate is still verified, as in transformers.
    """

    def stops(candidates: Text) -> bool:
        return (
            bool(candidates)
            and as_distribution(draft(candidates[:-1]), "draft")[candidates[-1]] < threshold
        )

    return stops


def before_unsure(draft: Kernel, threshold: float) -> Stops:
    """Return a rule that stops before a draw if all draft probabilities are below the threshold."""
    return lambda candidates: float(as_distribution(draft(candidates), "draft").max()) < threshold


def drop_unlikely(threshold: float) -> PositionRule:
    """Return a biased rule that drops a candidate with draft probability below the threshold.

    After a dropped candidate, the round ends with a token sampled from the target.
    """

    def decide(draft: Chances, target: Chances) -> PositionOutcome:
        draft_probs, target_probs = distribution_pair(draft, target)
        usual, kept = token_verification(draft_probs, target_probs), draft_probs >= threshold
        accepted = usual.accepted * kept
        dropped = float(draft_probs[~kept].sum())
        fallen = max(0.0, 1.0 - float(accepted.sum()) - dropped)
        rest = usual.recovered / max(float(usual.recovered.sum()), 1e-300)
        return PositionOutcome(accepted=accepted, recovered=fallen * rest + dropped * target_probs)

    return decide
