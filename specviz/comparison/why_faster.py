"""Explain why one lane is faster than another, from acceptance and step costs.

A round costs gamma c + v target steps and emits tau tokens. The explanation is a sentence that
names what helps the faster lane and, after "though", what slows that lane. If acceptance and step
costs do not explain the difference, the sentence says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from specviz.comparison.lane_results import LaneResult
from specviz.record.numbers import PERCENT, PROBABILITY, STEPS, TOKENS, times
from specviz.values import Value

_SMALL = 0.02  # smaller parts of the log-ratio are not mentioned


class _Medians(Value):
    """A lane's medians. ``step``: seconds per target step, or 1 if the lanes share a target."""

    gamma: int
    alpha: float
    tau: float
    c: float
    v: float
    step: float
    drafter: str

    @property
    def drafting(self) -> float:
        return self.gamma * self.c

    @property
    def cost(self) -> float:
        return self.drafting + self.v


@dataclass(frozen=True, slots=True)
class _Part:
    """A cause of the speed difference.

    ``weight``: its part of log(speed ratio). ``words``: its description.
    """

    weight: float
    words: str


def why_faster(first: LaneResult, second: LaneResult, *, same_target: bool) -> str:
    """Return why ``first`` is faster, as the end of a sentence; "" if a needed value is unknown."""
    ours, theirs = _medians(first, same_target), _medians(second, same_target)
    if ours is None or theirs is None:
        return ""
    parts = sorted(_parts(ours, theirs), key=lambda part: -abs(part.weight))
    helps = [part.words for part in parts if part.weight > _SMALL]
    hinders = [part.words for part in parts if part.weight < -_SMALL]
    if not helps or math.fsum(part.weight for part in parts) <= 0:
        return "acceptance and step costs do not explain the difference."
    though = f", though {' and '.join(hinders)}" if hinders else ""
    return f"{' and '.join(helps)}{though}."


def _medians(result: LaneResult, same_target: bool) -> _Medians | None:
    figures = (result.alpha_observed, result.tau, result.c, result.v)
    if any(each is None or not math.isfinite(each.median) for each in figures):
        return None
    alpha, tau, c, v = (each.median for each in figures if each is not None)
    rate = result.target_tokens_per_second
    if tau <= 0 or v <= 0 or not (same_target or rate):
        return None
    return _Medians(
        gamma=result.lane.config.gamma,
        alpha=alpha,
        tau=tau,
        c=c,
        v=v,
        step=1.0 if same_target or rate is None else 1 / rate.median,
        drafter=result.lane.config.draft_method.short,
    )


def _parts(ours: _Medians, theirs: _Medians) -> Iterator[_Part]:
    yield _Part(math.log(ours.tau / theirs.tau), _acceptance(ours, theirs))
    drafting, verifying = theirs.drafting - ours.drafting, theirs.v - ours.v
    # Split the difference of log costs between drafting and verification, in proportion to the
    # difference of each in target steps.
    per_step = _log_slope(ours.cost, theirs.cost)
    yield _Part(drafting * per_step, _drafting(ours, theirs))
    yield _Part(verifying * per_step, _verifying(ours, theirs))
    yield _Part(math.log(theirs.step / ours.step), _stepping(ours, theirs))


def _log_slope(first: float, second: float) -> float:
    if math.isclose(first, second):
        return 1 / first
    return (math.log(second) - math.log(first)) / (second - first)


def _acceptance(ours: _Medians, theirs: _Medians) -> str:
    more = "more" if ours.tau > theirs.tau else "less"
    if ours.gamma == theirs.gamma and (ours.alpha > theirs.alpha) == (ours.tau > theirs.tau):
        alphas = f"{PROBABILITY.bare(ours.alpha)} against {PROBABILITY.bare(theirs.alpha)}"
        return f"its {ours.drafter} is accepted {more}, {alphas}"
    fewer = "more" if ours.tau > theirs.tau else "fewer"
    taus = f"{TOKENS.bare(ours.tau)} against {TOKENS.bare(theirs.tau)}"
    return f"it emits {fewer} tokens per round, {taus}"


def _drafting(ours: _Medians, theirs: _Medians) -> str:
    own, other = STEPS.bare(ours.drafting), STEPS.bare(theirs.drafting)
    if ours.drafting == 0:
        return f"drafting is free, against {other} target steps per round"
    if theirs.drafting == 0:
        return f"drafting costs {own} target steps per round, against none"
    if ours.gamma != theirs.gamma:
        return f"drafting costs {own} target steps per round against {other}"
    cheaper = "cheaper" if ours.c < theirs.c else "more expensive"
    ratio = max(ours.c, theirs.c) / min(ours.c, theirs.c)
    return f"its draft is {PERCENT.shown(ratio - 1) if ratio < 1.1 else times(ratio)} {cheaper}"


def _verifying(ours: _Medians, theirs: _Medians) -> str:
    return f"verification costs {STEPS.bare(ours.v)} target steps against {STEPS.bare(theirs.v)}"


def _stepping(ours: _Medians, theirs: _Medians) -> str:
    faster = "faster" if ours.step < theirs.step else "slower"
    ratio = max(ours.step, theirs.step) / min(ours.step, theirs.step)
    return f"its target alone is {times(ratio)} {faster}"
