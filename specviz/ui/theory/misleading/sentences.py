"""The sentences of the misleading cases. They compare numbers as these are printed."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.record.numbers import COST, PERCENT, RATIO, STEPS, TOKENS
from specviz.theory.roofline import Serving
from specviz.theory.runtime import RoundsLaw
from specviz.theory.speed import expected_tokens

_SURE = 1 - 1e-9  # the chance of a number of rounds that counts as certain
_TAIL = "the slowest in a hundred"


def fewer(exact: float, formula: float) -> str:
    """How many fewer tokens there are than the formula promises."""
    share = PERCENT.shown(max(0.0, 1 - exact / formula))
    return "as many" if share == PERCENT.shown(0) else f"{share} fewer"


def compared(tokens: float, formula: float) -> str:
    """Tokens a round, which are never fewer than the formula says, compared with it."""
    many = "as many as" if TOKENS.bare(tokens) == TOKENS.bare(formula) else "more than"
    return f"{many} the formula says"


def tail_sentence(law: RoundsLaw, c: float, v: float) -> str:
    mean = RATIO.bare(law.speedup(law.mean, c, v))
    tail = RATIO.bare(law.speedup(law.percentile(0.99), c, v))
    if mean == tail:
        whom = "every text" if law.chances.max() > _SURE else "nearly every text"
        return f"At γ {law.gamma} {whom} gets **{mean}**."
    return (
        f"At γ {law.gamma} the mean speedup is **{mean}**, but one text in a hundred gets at most "
        f"**{tail}**."
    )


def best_gammas_sentence(laws: Sequence[RoundsLaw], c: float, v: float) -> str:
    """The best γ for the mean and for the slowest text in 100; ``laws`` hold every γ searched."""
    mean = _best([(each.gamma, each.speedup(each.mean, c, v)) for each in laws])
    tail = _best([(each.gamma, each.speedup(each.percentile(0.99), c, v)) for each in laws])
    if mean is None and tail is None:
        return "No γ pays."
    end = laws[-1].gamma
    best = f"best γ up to {end}, where this search ends," if end in (mean, tail) else "best γ"
    if mean == tail:
        return f"The {best} is {mean} for both."
    if tail is None:
        return f"The {best} is {mean} for the mean; for {_TAIL} no γ pays."
    if mean is None:
        return f"The {best} is {tail} for {_TAIL}; for the mean no γ pays."
    return f"The {best} is {mean} for the mean and {tail} for {_TAIL}."


def _best(speeds: Sequence[tuple[int, float]]) -> int | None:
    """The γ of the greatest speedup; None where the target alone is as fast."""
    gamma, greatest = max(speeds, key=lambda each: each[1])
    return gamma if greatest > 1.0 else None


def batch_sentence(place: Serving, alpha: float, gamma: int) -> str:
    best, value = place.best_gamma(alpha)
    advice = (
        "drafting does not pay" if best == 0 else f"the best γ, {best}, gives {RATIO.bare(value)}"
    )
    return (
        f"On the {place.gpu.name}, with {place.batch} sequences of {place.context:,} tokens, v is "
        f"{STEPS.bare(place.verify_cost(gamma))} and c is {COST.bare(place.draft_cost)}. "
        f"τ is {TOKENS.bare(expected_tokens(alpha, gamma))} at every batch size, but the "
        f"speedup at γ {gamma} is "
        f"**{RATIO.bare(place.speedup(alpha, gamma))}**; {advice}."
    )
