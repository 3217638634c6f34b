"""A run's roofline in words: the shares of the bandwidth, and the γ whose verification is free."""

from __future__ import annotations

from specviz.figures.roofline import FREE, FreeGamma, Pass, Roofline
from specviz.record.numbers import PERCENT, SIZE, STEPS, WHOLE_PERCENT

FROM_CACHES = "read from the processor's caches, not from memory"
DEARER = WHOLE_PERCENT.shown(FREE - 1)
UNMEASURED = "The bandwidth of memory was not measured with these step costs."
UNCOUNTED = (
    "What a pass of the target reads is not known: other tokens take other weights, or the step "
    "costs were measured before that was counted."
)


def roofline_words(found: Roofline) -> str:
    """What share of the bandwidth the models reach, and what verifying costs."""
    return " ".join(each for each in (_shares(found), _caches(found), free_words(found)) if each)


def _shares(found: Roofline) -> str:
    if found.bandwidth is None:
        return UNMEASURED
    told = [(name, PERCENT.shown(each.share)) for name, each in found.known if each.floor]
    if not told:
        return UNCOUNTED
    (name, share), *others = told
    sum_words = f"the {SIZE.shown(found.bandwidth)}/s that a bare sum reads here"
    listed = [f"{name} reaches {share} of {sum_words}", *(" ".join(each) for each in others)]
    joined = " and ".join((", ".join(listed[:-1]), listed[-1])) if others else listed[0]
    return f"{joined[0].upper()}{joined[1:]}."


def _caches(found: Roofline) -> str:
    cached = [name for name, each in found.known if from_caches(each)]
    if not cached:
        return ""
    return f"More than 100 % means: {FROM_CACHES}."


def from_caches(made: Pass | None) -> bool:
    return made is not None and made.share is not None and made.share > 1


def free_words(found: Roofline) -> str:
    free = found.free
    if free is None:
        return ""
    if not free.gamma:
        v = found.passes[1].seconds / found.target.seconds
        took = f"a pass over two tokens takes {STEPS.shown(v)} target steps"
        return f"No γ is free{_by_ends(free)}: {took}."
    least = "at least " if free.open else ""
    end = ", where the table ends" if free.open else ""
    return (
        f"Verification is free up to {least}γ {free.gamma}{end}{_by_ends(free)}: a pass takes at "
        f"most {DEARER} longer than a step."
    )


def _by_ends(free: FreeGamma) -> str:
    span = ends_of(free)
    return f" ({span} by the intervals)" if span else ""


def ends_of(free: FreeGamma | None) -> str:
    """Empty where there are no intervals, or where they leave no other."""
    if free is None or free.low is None or free.high is None or free.low == free.high:
        return ""
    return f"{free.low} to {'at least ' if free.high == free.last else ''}{free.high}"
