"""Sentences about simulated sizes (called bodies in the code) and about runs with them.

A simulated size enlarges a model: the model costs more, but its output is unchanged. The speedup of
a run with enlarged models holds for a pair that costs as much as these models and accepts as often
as the small pair. The speedup of the pair at its real size is reported, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from specviz.figures.metrics import Metrics
from specviz.figures.speedup_words import disturbance, is_wide, reported_speedup
from specviz.record.bodies import NAMED_BODIES, NO_BODY, BodyInfo, sized_model
from specviz.record.body_costs import BodyCost, BodyRoom
from specviz.record.numbers import COUNT, MILLISECONDS, PERCENT, SIZE, STEPS
from specviz.record.pairs import PairSpec, memory_margin
from specviz.record.trace import PairInfo, Trace
from specviz.values import Value

LOW_SHARE = 0.5  # of the memory bandwidth: below this, the target is slower than it could be
WEAK_BASELINE = "The speedup is overstated, because the target alone is slower than it could be: "
EARLY_RUN = "run at the pair's own size, because the simulated size was not loaded yet"
WITHOUT_BODY = "without a body"  # stored in the library
RUN_WITHOUT_BODY_HINT = "you can already run the pair at its own size"
_MEANING = (
    "The simulated size sets the cost; the small pair sets the acceptance. A model that was "
    "really trained at that size usually agrees less with such a small draft."
)


class SpeedupWithoutBody(Value):
    """The observed speedup of a pair with its models at their real size.

    It is shown beside the speedup of a run that enlarged these models. ``low`` and ``high`` are the
    ends of its interval, if known.
    """

    value: float
    low: float | None = None
    high: float | None = None


def speedup_without_body_of(figures: Metrics) -> SpeedupWithoutBody | None:
    """Return a run's observed speedup with its interval; None if the run was not timed.

    ``figures``: the metrics of a run at the pair's real size.
    """
    if figures.speedup_observed is None:
        return None
    return SpeedupWithoutBody(
        value=figures.speedup_observed, low=figures.speedup_low, high=figures.speedup_high
    )


def cost_words(body: BodyInfo, role: str = "target") -> str:
    """Return a sentence with a model's role, its real size, and the simulated size."""
    own, enlarged = COUNT.shown(body.own_parameters), COUNT.shown(body.parameters)
    does = "chooses" if role == "target" else "proposes"
    return (
        f"The {own} {role} {does} the tokens; each step costs as much as in a model of {enlarged}."
    )


def body_title(body: str, parameters: int | None = None) -> str:
    """Return how controls show a simulated size: "off", or its cost such as "cost of 88 M".

    Args:
        body: The name of the simulated size.
        parameters: The enlarged model's number of parameters, if known. Without this number, a
            size that is named after a well-known model is shown as the cost of that model.
    """
    if body == NO_BODY:
        return "off"
    named = NAMED_BODIES.get(body)
    return f"cost of {named.like if named and not parameters else _size(body, parameters)}"


def simulated_cost(body: str, parameters: int | None = None) -> str:
    """Return a simulated size's cost for a sentence, such as "the cost of an 88 M model".

    Args:
        parameters: As in ``body_title``.
    """
    named = NAMED_BODIES.get(body)
    model = named.like if named and not parameters else sized_model(_size(body, parameters))
    return f"the cost of {model}"


def _size(body: str, parameters: int | None) -> str:
    return COUNT.shown(parameters) if parameters else f"{body[:-1]} {body[-1]}"


def spec_words(spec: PairSpec) -> str:
    """Return a chosen pair in words: "embedded pair, target at the cost of a 90 M model"."""
    sharing = ["shared vocabulary"] if spec.shared_vocabulary else []
    bodies = (("target", spec.target_body), ("draft", spec.draft_body))
    titles = [f"{role} at {simulated_cost(body)}" for role, body in bodies if body != NO_BODY]
    weights = [spec.chosen_weights] if spec.chosen_weights else []
    forced = ["head of another target"] if spec.other_target else []
    return ", ".join([spec.title, *sharing, *forced, *titles, *weights])


def step_words(body: str, cost: BodyCost, room: BodyRoom, measured: float | None = None) -> str:
    """Return the parameters and step time of an enlarged model, and a warning if it does not fit.

    Args:
        body: The name of the simulated size.
        cost: What the enlarged model costs.
        room: The resources of this machine, among them its free memory.
        measured: Seconds of a step, if a run at this size measured them.
    """
    named = NAMED_BODIES.get(body)
    text = f"About as costly as {named.like}: " if named else ""
    text += f"{COUNT.shown(cost.parameters)} parameters, {SIZE.shown(cost.step_bytes)} read per "
    seconds, how = (cost.step_seconds, "expected") if measured is None else (measured, "measured")
    text += f"step, {_duration(seconds)} {how}."
    if cost.fits(room) is False:
        text += f" It does not fit: {_memory_words(cost, room)}."
    return text


def offer_words(*, loading: bool) -> str:
    """Return a sentence which says that the next run uses the offered simulated size."""
    return f"The next run uses this size{', once it is loaded' if loading else ''}."


def not_offered_words(bodies: Sequence[tuple[str, BodyCost]], room: BodyRoom) -> str:
    """Return a sentence that lists the simulated sizes in ``bodies``, which do not fit into memory.

    The result is empty if ``bodies`` is empty.
    """
    if not bodies:
        return ""
    smallest = min((cost for _, cost in bodies), key=lambda each: each.memory_bytes)
    names = ", ".join(COUNT.shown(cost.parameters) for _, cost in bodies)
    smallest_of = "" if len(bodies) == 1 else "the smallest "
    return f"Not enough memory for {names}; {smallest_of}{_memory_words(smallest, room)}."


def _duration(seconds: float) -> str:
    return MILLISECONDS.shown(1000 * seconds) if seconds < 1 else f"{seconds:.1f} s"


def _memory_words(cost: BodyCost, room: BodyRoom) -> str:
    free = "" if room.memory_free is None else f", {SIZE.shown(room.memory_free)} is free"
    return f"needs {SIZE.shown(memory_margin(cost.memory_bytes))} to run{free}"


def bodies_title(pair: PairInfo) -> str:
    """Return the library's key for a pair's simulated sizes, such as "target body 122 M"."""
    titles = [f"{role} body {COUNT.shown(body.parameters)}" for role, body in pair.bodies.items()]
    return ", ".join(titles) or WITHOUT_BODY


def shown_bodies_title(stored: str) -> str:
    """Return what pages show for a key of `bodies_title`.

    An example is "target at the cost of a 122 M model".
    """
    if stored == WITHOUT_BODY:
        return "own size"
    return re.sub(
        r" body (\S+ \w)", lambda found: f" at the cost of {sized_model(found[1])}", stored
    )


def cost_sentences(pair: PairInfo) -> tuple[str, ...]:
    """Return a sentence on the simulated cost of each enlarged model of a pair."""
    return tuple(cost_words(body, role) for role, body in pair.bodies.items())


def body_sentences(
    trace: Trace, metrics: Metrics, without_body: SpeedupWithoutBody | float | None = None
) -> tuple[str, ...]:
    """Return sentences on how a run's simulated sizes affect its speedup.

    The result is empty if the run has no simulated sizes.

    Args:
        without_body: The observed speedup of the run's pair at its real size, if measured.
    """
    if not trace.pair.has_bodies:
        return ()
    sentences = [*cost_sentences(trace.pair)]
    if metrics.speedup_observed is not None:
        sentences.append(f"{_without_body(without_body)}{_MEANING}")
    return (*sentences, *weak_baseline_warning(metrics))


def _without_body(speedup: SpeedupWithoutBody | float | None) -> str:
    if speedup is None:
        return ""
    if not isinstance(speedup, SpeedupWithoutBody):
        speedup = SpeedupWithoutBody(value=speedup)
    shown = reported_speedup(speedup.value, speedup.low, speedup.high)
    return f"At the pair's own size: {shown}. "


def weak_baseline_warning(metrics: Metrics) -> tuple[str, ...]:
    reason = _weakness(metrics)
    return (f"{WEAK_BASELINE}{reason}.",) if reason else ()


def is_weak_baseline(metrics: Metrics) -> bool:
    """Return whether the target alone should have been faster than it was.

    The result is False if the target was not enlarged, or if the machine was busy.
    """
    return bool(_weakness(metrics))


def _weakness(metrics: Metrics) -> str:
    """Return a reason to think that the target alone could run faster; empty if there is none.

    The result is also empty if the target was not enlarged, or if the machine was busy. A
    verification that takes less time than a step is a reason only if the step costs are precise.
    """
    seen = metrics.trace.baseline.conditions if metrics.trace.baseline else None
    if metrics.parameters is None or disturbance(seen):
        return ""
    imprecise = is_wide(*(metrics.accounted_interval or (None, None)))
    if not imprecise and metrics.v is not None and float(STEPS.bare(metrics.v)) < 1:
        return "a verification takes less time than one step"
    share = metrics.bandwidth_share
    if share is not None and share < LOW_SHARE:
        return f"its steps reach only {PERCENT.shown(share)} of the memory bandwidth"
    return ""
