"""What a run with bodies shows and what it does not, in sentences; none for a run without.

A body sets the cost of a model and leaves its words as they are. So the speedup is that of a pair
of such costs with the acceptance of the small one, and is said beside that of the pair as it is.
"""

from __future__ import annotations

from specviz.record.bodies import BodyInfo
from specviz.record.metrics import Metrics
from specviz.record.numbers import COUNT, SIZE, STEPS, times
from specviz.record.trace import Trace

LOW_SHARE = 0.5  # of the bandwidth: a target that reads less of it is slower than it could be
FLATTERED = "The target alone runs below its best here, so this speedup is flattered."
_MEANING = (
    "The body sets the cost; the acceptance is the small pair's. A really larger target usually "
    "agrees less with such a draft."
)


def cost_words(body: BodyInfo) -> str:
    """Such as "the words of the 6.1 M model, at the cost of one of 88 M"."""
    own, grown = COUNT.shown(body.own_parameters), COUNT.shown(body.parameters)
    return f"the words of the {own} model, at the cost of one of {grown}"


def body_label(body: BodyInfo) -> str:
    """Such as "1.1 B, shaped after Llama-3.2-1B, 4.33 GB read in a step"."""
    return f"{body.label}, {SIZE.shown(body.step_bytes)} read in a step"


def body_sentences(trace: Trace, metrics: Metrics, own: float | None = None) -> tuple[str, ...]:
    """``own`` is the observed speedup of the same pair without bodies, where it was measured."""
    pair = trace.pair
    draft = pair.draft.body if pair.draft else None
    target = pair.target.body
    if target is None and draft is None:
        return ()
    costs = (("target", target), ("draft", draft))
    told = [f"The {role} has {cost_words(body)}." for role, body in costs if body is not None]
    if metrics.speedup_observed is not None:
        told.append(_speedups(target, metrics.speedup_observed, own))
    return (*told, *([FLATTERED] if is_flattered(metrics) else []))


def is_flattered(metrics: Metrics) -> bool:
    """Whether a faster step of the target alone was within reach: several tokens cost less than
    one, or the step reads little of the bandwidth."""
    if metrics.parameters is None:
        return False
    quick = metrics.v is not None and float(STEPS.bare(metrics.v)) < 1
    idle = metrics.bandwidth_share is not None and metrics.bandwidth_share < LOW_SHARE
    return quick or idle


def _speedups(target: BodyInfo | None, speedup: float, own: float | None) -> str:
    grown = "a draft in a body" if target is None else f"a body of {COUNT.shown(target.parameters)}"
    words = f"With {grown}: {times(speedup)}."
    if own is not None:
        words += f" The same pair as it is: {times(own)}."
    return f"{words} {_MEANING}"
