"""What the steps of both models take, in seconds: what every c, v and forecast rests on."""

from __future__ import annotations

from dataclasses import dataclass

ENOUGH_SAMPLES = 6  # for a median that a few odd ones do not move
NOISE_LIMIT = 0.05  # step costs whose steps drift by more are measured again at the next rest


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeCosts:
    """Seconds of rounds of one tree, or of drafts side by side, by context: a whole draft phase,
    and the target's pass over the pending token and all nodes. Errors as in ``StepCosts``."""

    shape: tuple[int, ...]
    draft: tuple[float, ...]
    verify: tuple[float, ...]
    draft_error: float
    verify_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PassBytes:
    """What a pass of a model reads, however many tokens it is fed: its weights once, and the keys
    and values of its whole context."""

    weights: int  # of an embedding that is not also the output, one row
    cache: int  # of each token of the context

    def at(self, context: float) -> float:
        return self.weights + self.cache * context


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCosts:
    """Seconds a step, measured before any run is judged; rows by tokens fed, by context.

    ``draft[n - 1][i]`` feeds n tokens (1 or 2) at ``contexts[i]``: to the draft, or to the target's
    first layers for a drafter that leaves it early; ``draft`` is empty for one that is no model.
    These are the first steps of a round, made when the processor's caches hold what the target
    used; ``draft_next[i]`` is a later step, fed one token.
    ``target[n - 1][i]`` feeds n tokens (1 to 17): one is a plain step, more is a verification.
    """

    contexts: tuple[int, ...]
    draft: tuple[tuple[float, ...], ...]
    target: tuple[tuple[float, ...], ...]
    draft_next: tuple[float, ...] = ()
    drift: float = 0.0  # of plain steps within the measurement: slowest part over fastest, less 1
    # If the time ran out: the samples of the cost that has fewest; 0 means a first step or none.
    samples: int | None = None
    interpolated: tuple[int, ...] = ()  # tokens whose verification is taken from its neighbours'
    bandwidth: float | None = None  # bytes a second that a bare sum read just before
    # Half the 95 % interval of each cost, as a share of it, at the context where it is widest: of
    # first steps fed one and two tokens and of later ones; of the target by tokens fed.
    draft_errors: tuple[float, ...] = ()
    target_errors: tuple[float, ...] = ()
    shape: ShapeCosts | None = None  # of the run's own rounds, where they are no chain
    # None where it differs from token to token, as with experts; of the draft also without one.
    draft_reads: PassBytes | None = None
    target_reads: PassBytes | None = None

    @property
    def noisy(self) -> bool:
        return self.drift > NOISE_LIMIT

    @property
    def whole(self) -> bool:
        """Whether there was time for all of it."""
        return self.samples is None and not self.interpolated

    @property
    def sparse(self) -> bool:
        return self.samples is not None and self.samples < ENOUGH_SAMPLES

    def draft_step(self, context: float, tokens: int = 1) -> float:
        return _interpolate(self.contexts, self.draft[tokens - 1], context)

    def draft_phase(self, context: float, gamma: int, catch_up_share: float = 0.0) -> float:
        """A whole draft phase; ``catch_up_share`` of the first steps are fed two tokens."""
        first = self.draft_step(context)
        if catch_up_share:
            first += catch_up_share * (self.draft_step(context, 2) - first)
        if not self.draft_next:
            return first + (gamma - 1) * self.draft_step(context)
        return first + (gamma - 1) * _interpolate(self.contexts, self.draft_next, context)

    def shape_phases(self, context: float) -> tuple[float, float]:
        """Drafting and verifying a round of the table's own shape; nothing is extrapolated."""
        assert self.shape is not None
        drafting = _interpolate(self.contexts, self.shape.draft, context)
        return drafting, _interpolate(self.contexts, self.shape.verify, context)

    def target_step(self, context: float) -> float:
        return _interpolate(self.contexts, self.target[0], context)

    def verify(self, context: float, tokens: int) -> float:
        """Beyond the table, along the line through its 9th and its last row."""
        rows = len(self.target)
        if tokens <= rows:
            return _interpolate(self.contexts, self.target[tokens - 1], context)
        last = _interpolate(self.contexts, self.target[-1], context)
        anchor = _interpolate(self.contexts, self.target[8], context)
        return last + (last - anchor) / (rows - 9) * (tokens - rows)


def _interpolate(xs: tuple[int, ...], ys: tuple[float, ...], x: float) -> float:
    """Piecewise linear, flat beyond the ends."""
    if x <= xs[0]:
        return ys[0]
    for left, right, low, high in zip(xs, xs[1:], ys, ys[1:], strict=False):
        if x <= right:
            return low + (high - low) * (x - left) / (right - left)
    return ys[-1]
