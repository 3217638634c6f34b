"""Step costs: the seconds that steps of both models take, from which speedups are forecast."""

from __future__ import annotations

from typing import Literal

from specviz.values import Value

ENOUGH_SAMPLES = 6  # for a median that a few outliers do not move
NOISE_LIMIT = 0.05  # step costs that drift by more are measured again at the next idle time
BUSY = 0.15  # share of the processors' time used by other processes, reported from here on


class ShapeCosts(Value):
    """Seconds of a round with a tree or with several drafts, by context.

    ``draft`` is the time of a whole draft phase; ``verify`` is the time of the target's pass over
    the last emitted token and all nodes. ``draft_error`` and ``verify_error``: half the width of
    the time's 95 % interval, divided by the time, where the interval is widest.

    ``dynamic``: the width and the number of candidates of a dynamic tree; ``shape`` then gives only
    the depth. A dynamic tree differs from round to round. A measured table has the times of one
    example: the tree that the draft proposes after the context of the measurement.
    """

    shape: tuple[int, ...]
    draft: tuple[float, ...]
    verify: tuple[float, ...]
    draft_error: float
    verify_error: float
    dynamic: tuple[int, ...] = ()


class PassBytes(Value):
    """The bytes that a pass reads, however many tokens the pass processes.

    A pass reads the weights once, and the keys and values of the whole context once.
    """

    weights: int  # an input embedding not tied to the head counts as one row
    cache: int  # per token of the context

    def at(self, context: float) -> float:
        return self.weights + self.cache * context


Phase = Literal["draft", "verify", "other"]


class PhaseCost(Value):
    """The mean cost of one phase over similar rounds; the unit is a one-token step of the target.

    Similar rounds have the same number of candidates. For the draft phase, they also have the same
    number of tokens in the first draft step.
    """

    phase: Phase
    candidates: int
    fed: int = 0  # tokens of the first draft step; 0 for the other phases
    cost: float
    error: float  # half-width of the 95 % interval of the logarithm


class RunCosts(Value):
    """The costs of the phases of one run, from the rounds that were timed."""

    created: str
    process: str  # an id of the process that timed the run
    context: float  # mean tokens before a round
    step: float  # seconds of a plain step of the target
    phases: tuple[PhaseCost, ...]
    bandwidth: float | None = None  # bytes per second that a sum reads, once per process
    pair: str = ""  # its name, for lists
    others: float | None = None  # share of all processors' time used by other processes


class StepCosts(Value):
    """Seconds per step, by the number of tokens fed and by the length of the context.

    ``draft[n - 1][i]`` is the first draft step of a round, fed n tokens (1 or 2) at
    ``contexts[i]``, while the processor's caches still hold the target's data. ``draft_next[i]`` is
    a later draft step, fed one token. With early exit, the draft steps are steps of the target's
    first layers; ``draft`` is empty if no model drafts. ``target[n - 1][i]`` is a target pass that
    is fed n tokens (1 to 17): a step of plain decoding for one token, a verification for more.
    """

    contexts: tuple[int, ...]
    draft: tuple[tuple[float, ...], ...]
    target: tuple[tuple[float, ...], ...]
    draft_next: tuple[float, ...] = ()
    drift: float = 0.0  # of plain steps within the measurement: slowest part / fastest - 1
    # Set if time ran out: the fewest samples of any cost; 0 if only a first step or no step ran.
    samples: int | None = None
    interpolated: tuple[int, ...] = ()  # numbers of tokens whose verification is interpolated
    bandwidth: float | None = None  # bytes per second that a sum reads, once per process
    # Half the 95 % interval of each cost, relative to the cost, where the interval is widest.
    # Draft: first steps fed one and two tokens, then later steps. Target: by tokens fed.
    draft_errors: tuple[float, ...] = ()
    target_errors: tuple[float, ...] = ()
    shape: ShapeCosts | None = None  # for rounds with trees or several drafts
    # None if the bytes differ from token to token (mixture of experts), or without a draft.
    draft_reads: PassBytes | None = None
    target_reads: PassBytes | None = None
    # Seconds of a round outside both models, such as verdicts: per round, and per candidate.
    overhead: float = 0.0
    overhead_each: float = 0.0
    overhead_error: float = 0.0  # half-width of the 95 % interval, relative
    runs: int = 0  # the number of timed runs that the costs are fitted to
    processes: int = 0  # the number of processes in which these runs were timed
    of_this_run: bool = False  # fitted to the run to which they are applied, so no test
    table: bool = True  # whether a table was measured; else only passes of the runs are known
    others: float | None = None  # processor time share of other processes, in the median run

    @property
    def noisy(self) -> bool:
        return self.drift > NOISE_LIMIT or (self.others is not None and self.others >= BUSY)

    @property
    def sparse(self) -> bool:
        return self.samples is not None and self.samples < ENOUGH_SAMPLES

    def draft_step(self, context: float, tokens: int = 1) -> float:
        return interpolate(self.contexts, self.draft[tokens - 1], context)

    def draft_phase(self, context: float, gamma: int, fed_more: float = 0.0) -> float:
        """Return the seconds of a draft phase.

        Args:
            fed_more: The mean number of tokens of the first draft step, minus 1.
        """
        first = self.draft_step(context)
        if fed_more:
            first += fed_more * (self.draft_step(context, 2) - first)
        if not self.draft_next:
            return first + (gamma - 1) * self.draft_step(context)
        return first + (gamma - 1) * interpolate(self.contexts, self.draft_next, context)

    def overhead_of(self, candidates: float) -> float:
        """Return the seconds that a round spends outside both models."""
        return self.overhead + self.overhead_each * candidates

    def shape_phases(self, context: float) -> tuple[float, float]:
        """Return the seconds of the draft phase and of the verification in a round of ``shape``."""
        assert self.shape is not None
        drafting = interpolate(self.contexts, self.shape.draft, context)
        return drafting, interpolate(self.contexts, self.shape.verify, context)

    def target_step(self, context: float) -> float:
        return interpolate(self.contexts, self.target[0], context)

    def verify(self, context: float, tokens: int) -> float:
        """Return the seconds to verify ``tokens`` tokens.

        Row n - 1 of ``target`` has the seconds for n tokens. Beyond the last row, extrapolate
        linearly from the 9th and the last row.
        """
        rows = len(self.target)
        if tokens <= rows:
            return interpolate(self.contexts, self.target[tokens - 1], context)
        last = interpolate(self.contexts, self.target[-1], context)
        anchor = interpolate(self.contexts, self.target[8], context)
        return last + (last - anchor) / (rows - 9) * (tokens - rows)


def interpolate(xs: tuple[int, ...], ys: tuple[float, ...], x: float) -> float:
    """Interpolate linearly between points; outside them, return the value of the nearest point."""
    if x <= xs[0]:
        return ys[0]
    for left, right, low, high in zip(xs, xs[1:], ys, ys[1:], strict=False):
        if x <= right:
            return low + (high - low) * (x - left) / (right - left)
    return ys[-1]
