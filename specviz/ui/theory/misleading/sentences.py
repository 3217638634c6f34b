"""Sentences for the page "When the formula misleads". They compare rounded numbers."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.record.numbers import COST, PERCENT, RATIO, STEPS, TOKENS
from specviz.theory.roofline import Serving
from specviz.theory.runtime import RoundsDistribution
from specviz.theory.speed import expected_tokens

_SURE = 1 - 1e-9  # above this probability, a number of rounds counts as certain
_TAIL = "the slowest 1 % of texts"


def fewer(exact: float, formula: float) -> str:
    """Return "the same number", or the percentage by which ``exact`` is below ``formula``."""
    share = PERCENT.shown(max(0.0, 1 - exact / formula))
    return "the same number" if share == PERCENT.shown(0) else f"{share} fewer"


def compared(tokens: float, formula: float) -> str:
    """Compare tokens per round with the formula's: "as many as" or "more than" it predicts.

    ``tokens`` is never below ``formula``.
    """
    many = "as many as" if TOKENS.bare(tokens) == TOKENS.bare(formula) else "more than"
    return f"{many} the formula predicts"


def tail_sentence(rounds: RoundsDistribution, c: float, v: float) -> str:
    mean = RATIO.bare(rounds.speedup(rounds.mean, c, v))
    tail = RATIO.bare(rounds.speedup(rounds.percentile(0.99), c, v))
    if mean == tail:
        texts = "every text" if rounds.chances.max() > _SURE else "nearly every text"
        return f"With γ = {rounds.gamma} candidates per round, {texts} has a speedup of **{mean}**."
    return (
        f"With γ = {rounds.gamma} candidates per round, the mean speedup is **{mean}**, but the "
        f"speedup of the slowest 1 % of texts is at most **{tail}**."
    )


def best_gammas_sentence(distributions: Sequence[RoundsDistribution], c: float, v: float) -> str:
    """Describe the best γ by mean speedup and by the speedup of the slowest 1 % of texts.

    Args:
        distributions: The distribution of the number of rounds, one per γ, from γ = 1 up.
    """
    mean = _gamma_of_greatest(
        [(each.gamma, each.speedup(each.mean, c, v)) for each in distributions]
    )
    tail = _gamma_of_greatest(
        [(each.gamma, each.speedup(each.percentile(0.99), c, v)) for each in distributions]
    )
    if mean is None and tail is None:
        return "No γ pays."
    end = distributions[-1].gamma
    best = f"best γ up to {end}, where this search ends," if end in (mean, tail) else "best γ"
    if mean == tail:
        return f"The {best} is {mean}, both for the mean speedup and for {_TAIL}."
    if tail is None:
        return f"The {best} is {mean} for the mean speedup; for {_TAIL}, no γ pays."
    if mean is None:
        return f"The {best} is {tail} for {_TAIL}; on average, no γ pays."
    return f"The {best} is {mean} for the mean speedup and {tail} for {_TAIL}."


def _gamma_of_greatest(speeds: Sequence[tuple[int, float]]) -> int | None:
    """Return the γ with the greatest speedup, or None if no speedup is above 1."""
    gamma, greatest = max(speeds, key=lambda each: each[1])
    return gamma if greatest > 1.0 else None


def batch_sentence(serving: Serving, alpha: float, gamma: int) -> str:
    best, value = serving.best_gamma(alpha)
    advice = (
        "drafting does not pay" if best == 0 else f"the best γ, {best}, gives {RATIO.bare(value)}"
    )
    return (
        f"On the {serving.gpu.name}, with {serving.batch} sequences of {serving.context:,} tokens, "
        f"the verification cost v is {STEPS.bare(serving.verify_cost(gamma))} target steps and the "
        f"draft cost c is {COST.bare(serving.draft_cost)}. With γ = {gamma} candidates per round, "
        f"a round yields {TOKENS.bare(expected_tokens(alpha, gamma))} tokens at every batch size, "
        f"but the speedup is **{RATIO.bare(serving.speedup(alpha, gamma))}**; {advice}."
    )
