"""Step costs of a batch: the seconds of passes over several sequences at once.

``StepCosts`` has the costs of one sequence; here, costs also depend on the number of sequences.
Costs are interpolated between contexts, but never between numbers of rows: the time of a pass is
not linear in its rows, because matrix products process up to six rows at a time.
"""

from __future__ import annotations

from specviz.record.step_costs import interpolate
from specviz.values import Value

# Seconds: [batch][context]. A batch's row ends at the longest context that fits into memory.
Grid = tuple[tuple[float, ...], ...]


class BatchCosts(Value):
    """Seconds of a batch's phases, by the number of sequences and by the context.

    ``draft[n - 1]``: the first draft step of a round, which feeds n tokens (1 or 2) of every
    sequence. ``draft_next``: each later draft step. ``plain``: a step of the target alone.
    ``verify[i]``: the target's pass over ``gammas[i] + 1`` tokens of every sequence. All times
    include sampling.
    """

    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    gammas: tuple[int, ...]
    draft: tuple[Grid, Grid]
    draft_next: Grid
    plain: Grid
    verify: tuple[Grid, ...]

    def plain_step(self, batch: int, context: float) -> float:
        return self._at(self.plain, batch, context)

    def draft_phase(self, batch: int, context: float, gamma: int, fed_more: float = 0.0) -> float:
        """Return the seconds of the draft phase of a round, for all sequences together.

        Args:
            fed_more: The share of sequences whose first draft step is fed two tokens, as after a
                bonus token.
        """
        one, two = (self._at(each, batch, context) for each in self.draft)
        later = self._at(self.draft_next, batch, context)
        return one + fed_more * (two - one) + (gamma - 1) * later

    def verification(self, batch: int, context: float, gamma: int) -> float:
        """Return the seconds of the target's pass over gamma + 1 tokens of every sequence."""
        return self._at(self.verify[self.gammas.index(gamma)], batch, context)

    def v(self, batch: int, context: float, gamma: int) -> float:
        """Return v: the time of the batch's verification divided by the time of its plain step."""
        return self.verification(batch, context, gamma) / self.plain_step(batch, context)

    def _at(self, grid: Grid, batch: int, context: float) -> float:
        row = grid[self.batches.index(batch)]
        return interpolate(self.contexts[: len(row)], row, context)

    def fits(self, batch: int, context: int) -> bool:
        row = self.plain[self.batches.index(batch)]
        return context in self.contexts[: len(row)]


class BatchAcceptance(Value):
    """Acceptance, measured in runs of one sequence. Forecasts use it for batches of every size.

    ``reached[k]``: of the rounds with ``len(reached)`` candidates, the share that accepted at least
    k + 1 candidates. ``other``: the seconds that one sequence spends outside both models in one
    round.
    """

    alpha: float | None  # accepted / tested
    reached: tuple[float, ...]
    rounds: int
    other: float

    def tokens(self, gamma: int) -> float:
        """Return the expected tokens of a round: 1 + the expected number of accepted candidates."""
        return 1.0 + sum(self.reached[:gamma])


class BatchPoint(Value):
    """The measured speedups of a batch, and the forecast speedup.

    A speedup is the tokens per second of the batch with speculation, divided by its tokens per
    second with plain decoding.

    ``forecast`` and ``speedup`` cover only the rounds in which all sequences were running.
    ``compact`` and ``padded`` cover the whole batch, until the last text has ended. In ``compact``,
    passes leave out the rows of texts that have ended; in ``padded``, passes keep these rows, so
    each text has the same number of rows. ``low`` and ``high`` are the 95 % interval of
    ``speedup``; None with few repeats.
    """

    batch: int
    context: float  # mean tokens before a round
    forecast: float
    speedup: float
    error: float  # forecast / speedup - 1, the median over repeats
    low: float | None
    high: float | None
    compact: float
    padded: float
    plain: float  # tokens per second of plain decoding, all sequences together
    v: float
    tokens: float  # per round
    same_texts: bool  # whether every text equals that of its single run


class ExpertPoint(Value):
    """The distinct experts that a layer of a mixture of experts reads in a pass over ``rows`` rows.

    ``experts`` is measured; ``independent`` is the expected number if every row chose its experts
    independently and uniformly. ``seconds``: the time of the pass divided by the time of a pass
    over one row.
    """

    rows: int
    experts: float
    independent: float
    seconds: float


class ExpertRun(Value):
    """Runs with a mixture of experts as target. The draft is this model with one expert per token.

    ``step`` and ``verification``: how many distinct experts a layer of the target reads in a step
    of plain decoding and in a verification. ``speedup`` is the observed speedup.
    """

    gamma: int
    tokens: float  # per round
    step: float
    verification: float
    speedup: float


class ExpertReads(Value):
    """How many distinct experts a layer of a small Mixtral-shaped model reads per pass."""

    experts: int
    per_token: int
    expert_share: float  # of the weights that a pass over all experts reads
    points: tuple[ExpertPoint, ...]
    run: ExpertRun


class BatchForecast(Value):
    """The costs, acceptance and measured speedups of one pair's batches on one machine."""

    created: str
    pair: str
    target: str  # its simulated size; "none" for its own
    machine: str
    dtype: str
    threads: int
    temperature: float
    gamma: int  # of the measured points
    others: float | None  # share of the processors that other processes used
    costs: BatchCosts
    acceptance: BatchAcceptance
    points: tuple[BatchPoint, ...] = ()
    clock: str = "wall"  # or "processor": other processes do not count
    experts: ExpertReads | None = None
