"""Figures of one block of a load sweep: one engine, measured under one load.

Each block has a measurement window. A token counts if it arrived inside the window. Latencies cover
the requests that were due inside the window. Tokens of failed requests do not count. Acceptance is
computed only from the engine's counters, because under load one chunk can contain the tokens of
several rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from specviz.figures.arithmetic import known_ratio
from specviz.record.load_run import EngineGauges, LoadBlock, LoadRequest, LoadSettings
from specviz.record.server_run import Counters, alpha_by_position
from specviz.values import Value

FAILED_SHARE = 0.05  # above this share of failures, a block counts for no speedup


class Percentiles(Value):
    """Percentiles of a time in seconds."""

    p50: float
    p90: float
    p99: float
    count: int


class Totals(Value):
    """The number of tokens that one engine sent under one load, counted by client and engine.

    ``received`` is the client's count. ``counted`` is the engine's count; None if the engine
    reported no counters or restarted.
    """

    received: int
    counted: float | None

    @property
    def difference(self) -> float | None:
        return None if self.counted is None else self.counted - self.received

    @property
    def agree(self) -> bool | None:
        return None if self.difference is None else self.difference == 0


class Acceptance(Value):
    """How much the engine's counters grew under one load, and the acceptance computed from this.

    An unknown value is None.
    """

    rounds: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    accepted_at: tuple[float, ...] = ()

    @property
    def tau(self) -> float | None:
        share = known_ratio(self.accepted, self.rounds)
        return None if share is None else 1 + share

    @property
    def alpha_by_position(self) -> tuple[float | None, ...]:
        return alpha_by_position(self.accepted_at, self.rounds) if self.rounds else ()

    @property
    def draft_acceptance_rate(self) -> float | None:
        return known_ratio(self.accepted, self.drafted)


class EngineState(Value):
    """The engine's state while it was measured under one load, from its gauges.

    Gauges that the engine does not report are None.
    """

    kv_use: float | None = None  # largest share in use
    running: float | None = None  # most at once
    waiting: float | None = None  # most at once
    preemptions: float | None = None
    prefix_hits: float | None = None  # share of the prompt tokens


class BlockFigures(Value):
    """What was measured of one engine under one load (a block).

    ``problem`` says why the block is left out of the speedups; empty if the block is usable.
    """

    block: LoadBlock
    tokens_per_second: float
    tokens_per_second_per_user: float
    ttft: Percentiles | None
    tpot: Percentiles | None
    chunk_latency: Percentiles | None
    seconds_per_token: float | None  # from the scheduled send to the last token
    acceptance: Acceptance
    engine: EngineState
    requests: int  # due in the window and finished
    failures: int  # in the whole block
    mean_in_flight: float
    most_in_flight: int
    totals: Totals
    problem: str = ""

    @property
    def pace(self) -> float:
        """The engine's speed under this load; a speedup is the ratio of two engines' paces.

        With a fixed number of users (closed loop), the pace is the throughput. With a fixed rate of
        requests (open loop), it is 1 / latency per token.
        """
        if self.block.requests and self.block.requests[0].user is not None:
            return self.tokens_per_second
        return 1 / self.seconds_per_token if self.seconds_per_token else 0.0


def block_figures(block: LoadBlock, settings: LoadSettings) -> BlockFigures:
    fine = [each for each in block.requests if not each.failed]
    due = [each for each in fine if block.begin <= each.scheduled < block.end]
    rate = tokens_within(fine, block.begin, block.end) / (block.end - block.begin)
    mean, most = in_flight(block)
    tokens = sum(each.tokens for each in due)
    waited = sum((each.last or each.ended) - each.scheduled for each in due)
    return BlockFigures(
        block=block,
        tokens_per_second=rate,
        tokens_per_second_per_user=rate / (block.level if settings.mode == "closed" else mean or 1),
        ttft=percentiles(ttft_of(each) for each in due),
        tpot=percentiles(tpot_of(each) for each in due),
        chunk_latency=percentiles(gaps_within(fine, block.begin, block.end)),
        seconds_per_token=waited / tokens if tokens else None,
        acceptance=acceptance_of(block),
        engine=_engine_state(block.gauges),
        requests=len(due),
        failures=sum(each.failed for each in block.requests),
        mean_in_flight=mean,
        most_in_flight=most,
        totals=_totals(block),
        problem=_problem(block, rate),
    )


def tokens_within(requests: Iterable[LoadRequest], begin: float, end: float) -> float:
    return sum(
        tokens
        for each in requests
        for at, tokens in zip(each.arrivals, each.chunk_tokens, strict=True)
        if begin <= at < end
    )


def ttft_of(request: LoadRequest) -> float | None:
    return None if request.first is None else request.first - request.scheduled


def tpot_of(request: LoadRequest) -> float | None:
    """Return the seconds per token after the first chunk; None for a single chunk."""
    tokens = sum(request.chunk_tokens[1:])
    if not tokens or request.first is None or request.last is None:
        return None
    return (request.last - request.first) / tokens


def gaps_within(requests: Iterable[LoadRequest], begin: float, end: float) -> list[float]:
    return [
        later - earlier
        for each in requests
        for earlier, later in pairwise(each.arrivals)
        if begin <= later < end
    ]


def percentiles(values: Iterable[float | None]) -> Percentiles | None:
    known = [each for each in values if each is not None]
    if not known:
        return None
    p50, p90, p99 = np.percentile(known, [50, 90, 99])
    return Percentiles(p50=float(p50), p90=float(p90), p99=float(p99), count=len(known))


def in_flight(block: LoadBlock) -> tuple[float, int]:
    """Return the mean and the largest number of requests in flight during the block's window."""
    begin, end = block.begin, block.end
    changes = list[tuple[float, int]]()
    for each in block.requests:
        sent, ended = max(each.sent, begin), min(each.ended, end)
        if sent < ended:
            changes += [(sent, 1), (ended, -1)]
    now, most, area, before = 0, 0, 0.0, begin
    for at, change in sorted(changes):  # an end sorts before a begin at the same moment
        area += now * (at - before)
        now, before = now + change, at
        most = max(most, now)
    return area / (end - begin), most


def acceptance_of(block: LoadBlock) -> Acceptance:
    """Return how much the engine's counters grew during a block.

    The result has no values if the engine restarted or if its counters are unknown.
    """
    before, after = block.before, block.after
    if before is None or after is None or block.restarted:
        return Acceptance()
    positions = (*before.accepted_at, *(0.0 for _ in after.accepted_at[len(before.accepted_at) :]))
    return Acceptance(
        rounds=_grown(before.drafts, after.drafts),
        drafted=_grown(before.drafted, after.drafted),
        accepted=_grown(before.accepted, after.accepted),
        accepted_at=tuple(
            new - old for new, old in zip(after.accepted_at, positions, strict=False)
        ),
    )


def pooled(found: Sequence[Acceptance]) -> Acceptance:
    """Return the sum of each counter's increases; None if one of the increases is unknown."""
    if not found:
        return Acceptance()
    width = min(len(each.accepted_at) for each in found)
    return Acceptance(
        rounds=_sum([each.rounds for each in found]),
        drafted=_sum([each.drafted for each in found]),
        accepted=_sum([each.accepted for each in found]),
        accepted_at=tuple(sum(each.accepted_at[at] for each in found) for at in range(width)),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) if len(known) == len(values) else None


def _grown(before: float | None, after: float | None) -> float | None:
    return None if after is None else after - (before or 0.0)


def _totals(block: LoadBlock) -> Totals:
    received = sum(each.tokens for each in block.requests)
    before: Counters | None = block.before
    after: Counters | None = block.after
    if before is None or after is None or block.restarted:
        return Totals(received=received, counted=None)
    return Totals(received=received, counted=_grown(before.generated, after.generated))


def _engine_state(gauges: Sequence[EngineGauges]) -> EngineState:
    def most(name: str) -> float | None:
        known = [value for each in gauges if (value := getattr(each, name)) is not None]
        return max(known, default=None)

    def growth(name: str) -> float | None:
        known = [value for each in gauges if (value := getattr(each, name)) is not None]
        return max(0.0, known[-1] - known[0]) if len(known) > 1 else None

    return EngineState(
        kv_use=most("kv_use"),
        running=most("running"),
        waiting=most("waiting"),
        preemptions=growth("preemptions"),
        prefix_hits=known_ratio(growth("prefix_hits"), growth("prefix_queries")),
    )


def _problem(block: LoadBlock, rate: float) -> str:
    failed = sum(each.failed for each in block.requests)
    if block.restarted:
        return "The engine restarted during the block."
    if failed > FAILED_SHARE * len(block.requests):
        first = next(each.failure for each in block.requests if each.failed)
        return f"{failed} of {len(block.requests)} requests failed. {first}"
    if rate == 0:
        return "No token arrived during the measurement window."
    return ""
