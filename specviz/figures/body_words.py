"""What a run with bodies shows and what it does not, in sentences; none for a run without.

A body sets the cost of a model and leaves its words as they are. So the speedup is that of a pair
of such costs with the acceptance of the small one, and that of the pair without a body is said
beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.figures.metrics import Metrics
from specviz.figures.speedup_words import reported_speedup
from specviz.record.bodies import NAMED_BODIES, NO_BODY, BodyInfo
from specviz.record.body_costs import BodyCost, BodyRoom
from specviz.record.numbers import COUNT, MILLISECONDS, SIZE, STEPS
from specviz.record.pairs import PairSpec, memory_margin
from specviz.record.trace import PairInfo, Trace

LOW_SHARE = 0.5  # of the bandwidth: a target that reads less of it is slower than it could be
FLATTERED = "The target alone is slower here than it could be, so this speedup looks too good."
EARLY_RUN = (
    "This run is without a body (a larger target that says the same), which was not ready yet."
)
WITHOUT = "without a body"
UNTIL_GROWN = "Run works already, with the target as small as it is"
_MEANING = (
    "The body sets the cost; the acceptance is the small pair's. A really larger target usually "
    "agrees less with such a draft."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSpeedup:
    """The observed speedup of the same pair without bodies; the ends where they are known."""

    value: float
    low: float | None = None
    high: float | None = None


def speedup_without_body_of(figures: Metrics) -> OwnSpeedup | None:
    """Of the figures of a run without bodies."""
    if figures.speedup_observed is None:
        return None
    return OwnSpeedup(
        value=figures.speedup_observed, low=figures.speedup_low, high=figures.speedup_high
    )


def cost_words(body: BodyInfo, role: str = "target") -> str:
    """Who speaks, and at what cost."""
    own, grown = COUNT.shown(body.own_parameters), COUNT.shown(body.parameters)
    does = "chooses" if role == "target" else "proposes"
    return (
        f"The {own} {role} {does} the words; each step costs as much as that of a model of {grown}."
    )


def body_label(body: BodyInfo) -> str:
    """Such as "1.1 B, shaped after Llama-3.2-1B, 4.33 GB read in a step"."""
    return f"{body.label}, {SIZE.shown(body.step_bytes)} read in a step"


def body_title(body: str) -> str:
    """A body as a control names it: "no body", "90M", "Llama-3.2-1B"."""
    named = NAMED_BODIES.get(body)
    return "no body" if body == NO_BODY else named.like if named else body


def spec_words(spec: PairSpec) -> str:
    """A pair as it is asked for, such as "embedded pair, target as Llama-3.2-1B"."""
    sharing = ["shared vocabulary"] if spec.shared_vocabulary else []
    bodies = (("target", spec.target_body), ("draft", spec.draft_body))
    told = [f"{role} as {body_title(body)}" for role, body in bodies if body != NO_BODY]
    return ", ".join([spec.label, *sharing, *told])


def expected_words(cost: BodyCost, room: BodyRoom) -> str:
    """What a step of a body costs here, and where it does not fit, that."""
    words = f"{COUNT.shown(cost.parameters)} parameters, {SIZE.shown(cost.step_bytes)} read in a "
    words += f"step: {_duration(cost.step_seconds)} expected."
    if cost.fits(room) is False:
        words += f" It does not fit: {_memory_words(cost, room)}."
    return words


def not_offered_words(bodies: Sequence[tuple[str, BodyCost]], room: BodyRoom) -> str:
    """Bodies that do not fit, and why; empty where there are none."""
    if not bodies:
        return ""
    smallest = min((cost for _, cost in bodies), key=lambda each: each.memory_bytes)
    names = ", ".join(body_title(body) for body, _ in bodies)
    least = "" if len(bodies) == 1 else "the smallest "
    return f"Not offered, for want of memory: {names}; {least}{_memory_words(smallest, room)}."


def _duration(seconds: float) -> str:
    return MILLISECONDS.shown(1000 * seconds) if seconds < 1 else f"{seconds:.1f} s"


def _memory_words(cost: BodyCost, room: BodyRoom) -> str:
    free = "" if room.memory_free is None else f", {SIZE.shown(room.memory_free)} are free"
    return f"needs {SIZE.shown(memory_margin(cost.memory_bytes))} to run{free}"


def grown_words(pair: PairInfo) -> str:
    """The bodies of a pair in few words, such as "target of 88 M"; empty without any."""
    told = [f"{role} of {COUNT.shown(body.parameters)}" for role, body in _bodies(pair)]
    return ", ".join(told)


def bodies_title(pair: PairInfo) -> str:
    """Such as "target body 122 M", or that there is none."""
    told = [f"{role} body {COUNT.shown(body.parameters)}" for role, body in _bodies(pair)]
    return ", ".join(told) or WITHOUT


def cost_sentences(pair: PairInfo) -> tuple[str, ...]:
    """What the bodies of a pair are, one sentence for each."""
    return tuple(cost_words(body, role) for role, body in _bodies(pair))


def _bodies(pair: PairInfo) -> list[tuple[str, BodyInfo]]:
    bodies = (("target", pair.target.body), ("draft", pair.draft.body if pair.draft else None))
    return [(role, body) for role, body in bodies if body is not None]


def body_sentences(
    trace: Trace, metrics: Metrics, own: OwnSpeedup | float | None = None
) -> tuple[str, ...]:
    """``own`` is the observed speedup of the same pair without bodies, where it was measured."""
    if not trace.pair.has_bodies:
        return ()
    told = [*cost_sentences(trace.pair)]
    if metrics.speedup_observed is not None:
        told.append(f"{_without(own)}{_MEANING}")
    return (*told, *weak_baseline_warning(metrics))


def _without(own: OwnSpeedup | float | None) -> str:
    if own is None:
        return ""
    known = own if isinstance(own, OwnSpeedup) else OwnSpeedup(value=own)
    return f"Without a body: {reported_speedup(known.value, known.low, known.high)}. "


def weak_baseline_warning(metrics: Metrics) -> tuple[str, ...]:
    return (FLATTERED,) if is_weak_baseline(metrics) else ()


def is_weak_baseline(metrics: Metrics) -> bool:
    """Whether a faster step of the target alone was within reach: several tokens cost less than
    one, or the step reads little of the bandwidth."""
    if metrics.parameters is None:
        return False
    quick = metrics.v is not None and float(STEPS.bare(metrics.v)) < 1
    idle = metrics.bandwidth_share is not None and metrics.bandwidth_share < LOW_SHARE
    return quick or idle
