"""Compare the time of a run's steps with the time to read their bytes from memory.

A pass reads the weights once, regardless of the number of its tokens. As long as memory bandwidth
is the limit, verifying γ + 1 tokens therefore takes as long as a step. Such a γ is called free,
because the verification costs nothing extra. If a verification takes longer than a step, arithmetic
is the limit. All values are for the run's mean context, or for the nearest context that the step
costs cover.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import takewhile

from specviz.figures.step_times import StepTimes, joint_error
from specviz.record.bodies import BodyInfo
from specviz.record.step_costs import PassBytes, StepCosts
from specviz.values import Value

FREE = 1.1  # a verification of at most this many target steps counts as free


class Pass(Value):
    seconds: float
    error: float | None  # half-width of the 95 % interval, relative; None if the table has none
    read: float | None  # bytes; None if unknown
    bandwidth: float | None  # bytes per second that a sum over a large array reads, if measured

    @property
    def floor(self) -> float | None:
        """The seconds to read the bytes of the pass at the measured bandwidth."""
        if self.read is None or self.bandwidth is None:
            return None
        return self.read / self.bandwidth

    @property
    def share(self) -> float | None:
        """How much of the bandwidth the pass reaches, as a share.

        The share is above 1 if bytes come from the processor's caches.
        """
        floor = self.floor
        return None if floor is None else floor / self.seconds


class FreeGamma(Value):
    """The largest γ up to which a verification costs hardly more than a target step.

    ``gamma`` is this γ, or 0 if there is no such γ. Up to it, v ≤ ``FREE``. ``low`` and ``high``
    are the ends of the interval of ``gamma``.
    """

    gamma: int
    low: int | None  # None if the table has no intervals
    high: int | None
    last: int  # the largest γ in the table

    @property
    def open(self) -> bool:
        """Whether the table of step costs ends at this γ, so that a larger γ may also be free."""
        return self.gamma == self.last


class Roofline(Value):
    bandwidth: float | None  # None if not measured
    passes: tuple[Pass, ...]  # of the target, over 1, 2, ... tokens
    draft: Pass | None  # the mean step of a draft phase
    verification: Pass | None  # of the run's rounds
    gamma: int | None  # of the draft phase and the verification
    free: FreeGamma | None  # None with only plain steps, and if its interval is too wide
    interpolated: tuple[int, ...]  # numbers of tokens whose pass was not timed

    @property
    def target(self) -> Pass:
        return self.passes[0]

    @property
    def known(self) -> tuple[tuple[str, Pass], ...]:
        """The passes of this run with a known cost, by name."""
        named = (
            ("a target step", self.target),
            ("a draft step", self.draft),
            ("a verification", self.verification),
        )
        return tuple((name, each) for name, each in named if each is not None)


def roofline(
    costs: StepCosts, steps: StepTimes, context: float, target: BodyInfo | None
) -> Roofline:
    """Return the roofline of a run.

    Args:
        steps: The step times of this run, computed from ``costs``.
        target: The target's simulated size, if any. It gives the bytes of a step if ``costs`` lack
            them.
    """
    inside = min(max(context, costs.contexts[0]), costs.contexts[-1])
    reads = costs.target_reads
    if reads is None and target is not None:
        reads = PassBytes(weights=target.step_bytes, cache=0)

    def made(seconds: float, error: float | None, reads: PassBytes | None) -> Pass:
        read = None if reads is None else reads.at(inside)
        return Pass(seconds=seconds, error=error, read=read, bandwidth=costs.bandwidth)

    draft = verification = None
    if steps.draft:  # 0 where no model drafts
        draft = made(steps.draft, steps.draft_error, costs.draft_reads)
    if steps.verification is not None:
        verification = made(steps.verification, steps.verification_error, reads)
    return Roofline(
        bandwidth=costs.bandwidth,
        passes=tuple(
            made(costs.verify(inside, tokens), error, reads)
            for tokens, error in enumerate(_errors(costs), 1)
        ),
        draft=draft,
        verification=verification,
        gamma=steps.gamma,
        free=_free(tuple(_ratios(costs, inside)))
        if len(costs.target) > 1 and costs.table
        else None,
        interpolated=costs.interpolated,
    )


def _ratios(costs: StepCosts, context: float) -> Iterator[tuple[float, float | None]]:
    """Yield v and the half-width of the interval of log v for γ = 1, 2, ...

    v is the time of a verification divided by the time of a plain step. The half-width is None if
    it is unknown.
    """
    step, (plain, *errors) = costs.target_step(context), _errors(costs)
    for tokens, error in enumerate(errors, 2):
        yield costs.verify(context, tokens) / step, joint_error(error, plain)


def _errors(costs: StepCosts) -> tuple[float | None, ...]:
    """Return the error of the time of a pass over 1, 2, ... tokens; an unknown error is None."""
    rows = len(costs.target)
    return (*costs.target_errors, *(None,) * rows)[:rows]


def _free(ratios: tuple[tuple[float, float | None], ...]) -> FreeGamma | None:
    """Return the largest free γ; None if its interval covers more than half of the table.

    Args:
        ratios: Pairs of v and the half-width of the interval of log v; one for each γ from 1 on.
    """

    def free_up_to(sign: int) -> int:
        free = (v * math.exp(sign * (error or 0.0)) <= FREE for v, error in ratios)
        return sum(1 for _ in takewhile(bool, free))

    has_errors, last = all(error is not None for _, error in ratios), len(ratios)
    low, high = (free_up_to(sign) if has_errors else None for sign in (1, -1))
    if low is not None and high is not None and high - low > last / 2:
        return None
    return FreeGamma(gamma=free_up_to(0), low=low, high=high, last=last)
