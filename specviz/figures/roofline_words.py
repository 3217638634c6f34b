"""Sentences about a run's roofline: shares of the bandwidth, and the largest free γ."""

from __future__ import annotations

from specviz.figures.roofline import FREE, FreeGamma, Pass, Roofline
from specviz.record.numbers import PERCENT, SIZE, STEPS, WHOLE_PERCENT

ABOVE_BANDWIDTH = (
    "bytes come from the processor's caches, or the bandwidth was measured on a busy machine"
)
FREE_MARGIN = WHOLE_PERCENT.shown(FREE - 1)
UNMEASURED = "Memory bandwidth was not measured with these step costs."
UNCOUNTED = (
    "The bytes of a target pass are unknown: the target is a mixture of experts or quantised, or "
    "the step costs were measured by an older version of specviz."
)


def roofline_words(found: Roofline) -> str:
    """Return sentences on the shares of the bandwidth and on the largest free γ."""
    return " ".join(
        each for each in (_shares(found), _reason_above(found), free_words(found)) if each
    )


def _shares(found: Roofline) -> str:
    if found.bandwidth is None:
        return UNMEASURED
    shares = [(name, PERCENT.shown(each.share)) for name, each in found.known if each.floor]
    if not shares:
        return UNCOUNTED
    (name, share), *others = shares
    bandwidth = f"the memory bandwidth of {SIZE.shown(found.bandwidth)}/s"
    listed = [f"{name} reaches {share} of {bandwidth}", *(" ".join(each) for each in others)]
    joined = " and ".join((", ".join(listed[:-1]), listed[-1])) if others else listed[0]
    return f"{joined[0].upper()}{joined[1:]}."


def _reason_above(found: Roofline) -> str:
    is_above = any(is_above_bandwidth(each) for _, each in found.known)
    return f"Above 100 %: {ABOVE_BANDWIDTH}." if is_above else ""


def is_above_bandwidth(made: Pass | None) -> bool:
    return made is not None and made.share is not None and made.share > 1


def free_words(found: Roofline) -> str:
    free = found.free
    if free is None:
        return ""
    if not free.gamma:
        v = found.passes[1].seconds / found.target.seconds
        cost = f"a pass over two tokens takes {STEPS.shown(v)} target steps"
        return f"As measured, verification is not free at any γ: {cost}.{_interval(free)}"
    least = "at least " if free.open else ""
    end = ", where the table ends" if free.open else ""
    return (
        f"Verification is free up to {least}γ {free.gamma}{end}: a pass takes at most "
        f"{FREE_MARGIN} longer than a step.{_interval(free)}"
    )


def _interval(free: FreeGamma) -> str:
    span = ends_of(free)
    if not span:
        return ""
    if not free.gamma:
        return f" Given the measurement error, it may be free up to γ {_highest(free)}."
    return f" Within the measurement error, this limit is γ {span}."


def ends_of(free: FreeGamma | None) -> str:
    """Return the interval of the largest free γ as text; empty if unknown or without width."""
    if free is None or free.low is None or free.high is None or free.low == free.high:
        return ""
    return f"{free.low} to {_highest(free)}"


def _highest(free: FreeGamma) -> str:
    return f"{'at least ' if free.high == free.last else ''}{free.high}"
