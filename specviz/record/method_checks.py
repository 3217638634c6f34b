"""Ways to speculate held against what is exact of them, from the record of runs alone.

Several drafts: siblings are tested in turn, and whether one is tested is settled before it is
drawn; so what falls, less the sum of the chances that it would, has the mean 0. Blocks: the weights
p_i of a round are the chances that so many stand, before the coins and the later candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import mul

from specviz.errors import ConfigError
from specviz.record.trace import Candidate, Round, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How often something happened, and how often it should have. ``z`` is in standard deviations,
    None where nothing was left to luck."""

    observed: int
    expected: float
    variance: float

    @property
    def z(self) -> float | None:
        off = self.observed - self.expected
        return off / math.sqrt(self.variance) if self.variance > 0.0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftsPoint:
    """The runs with one number of drafts. A place is rejected if all its candidates fall."""

    num_drafts: int
    num_runs: int
    num_tokens: int  # emitted
    num_places: int  # tested
    fallen: Count  # of the tested candidates
    rejected: Count  # of the places whose last candidate was tested

    @property
    def rejections_a_token(self) -> float:
        return self.rejected.observed / self.num_tokens

    @property
    def expected_a_token(self) -> float:
        return self.rejected.expected / self.num_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRound:
    """Candidates of one round that stood, and that should on average by either verifier."""

    accepted: int
    by_block: float  # sum of p_i
    by_token: float  # sum of products of min(1, target/draft): never more


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCheck:
    rounds: tuple[BlockRound, ...]

    @property
    def accepted(self) -> int:
        return sum(each.accepted for each in self.rounds)

    @property
    def by_block(self) -> float:
        return math.fsum(each.by_block for each in self.rounds)

    @property
    def by_token(self) -> float:
        return math.fsum(each.by_token for each in self.rounds)

    @property
    def z(self) -> float | None:
        """Of what was accepted, from how far single rounds lie off; None where none does."""
        error = math.sqrt(math.fsum((each.accepted - each.by_block) ** 2 for each in self.rounds))
        return (self.accepted - self.by_block) / error if error > 0.0 else None


def rejections_over_drafts(traces: Sequence[Trace]) -> tuple[DraftsPoint, ...]:
    """A point for each number of drafts, in their order.

    Only runs of chains side by side, judged by odds and not greedy. Unlike the texts of theorem 3,
    a round of γ candidates also ends without a rejection, so its floor does not bind these runs.
    """
    groups: dict[int, list[Trace]] = {}
    for trace in traces:
        _expect_drafts(trace)
        groups.setdefault(trace.config.num_drafts, []).append(trace)
    points = (_drafts_point(num, groups[num]) for num in sorted(groups))
    return tuple(point for point in points if point.num_places)


def block_check(traces: Sequence[Trace]) -> BlockCheck:
    """Block verification against token by token on the drafts of the same rounds.

    Candidates behind the token that ended a text do not count, in any of its rounds; the round that
    a stop string cut is left out.
    """
    if any(trace.config.rule != "block" for trace in traces):
        raise ConfigError("A run does not judge blocks.", remedy="Choose the rule block.")
    return BlockCheck(rounds=tuple(each for trace in traces for each in _block_rounds(trace)))


def places_of(entry: Round) -> Iterator[tuple[Candidate, ...]]:
    """The candidates of a round by the place that they were drafted for, as they were drawn."""
    if all(each.parent is None for each in entry.candidates):
        yield from ((each,) for each in entry.candidates)
        return
    for _, siblings in groupby(entry.candidates, key=lambda each: each.parent):
        yield tuple(siblings)


def _drafts_point(num_drafts: int, traces: Sequence[Trace]) -> DraftsPoint:
    rounds = [entry for trace in traces for entry in trace.rounds]
    places = [place for entry in rounds for place in places_of(entry) if place[0].tested]
    return DraftsPoint(
        num_drafts=num_drafts,
        num_runs=len(traces),
        num_tokens=sum(len(trace.token_ids) for trace in traces),
        num_places=len(places),
        fallen=_falling([each for place in places for each in place if each.tested]),
        rejected=_falling([place[-1] for place in places if place[-1].tested]),
    )


def _falling(tested: Sequence[Candidate]) -> Count:
    # Sums of float32 probabilities may end a hair above 1.
    chances = [1.0 - min(1.0, each.expected_acceptance) for each in tested]
    return Count(
        observed=sum(each.verdict == "rejected" for each in tested),
        expected=math.fsum(chances),
        variance=math.fsum(chance * (1.0 - chance) for chance in chances),
    )


def _block_rounds(trace: Trace) -> Iterator[BlockRound]:
    end = trace.token_ids[-1] if trace.finish == "eos" else None
    for entry in trace.rounds:
        if entry.cut == "stop":
            continue
        judged = _before_end(entry.candidates, end)
        yield BlockRound(
            accepted=sum(each.verdict == "accepted" for each in judged),
            by_block=math.fsum(each.joint or 0.0 for each in judged),
            by_token=math.fsum(accumulate((each.odds for each in judged), mul)),
        )


def _before_end(candidates: Sequence[Candidate], end: int | None) -> Sequence[Candidate]:
    """Up to the first that ends the text, that one included."""
    ids = [each.token_id for each in candidates]
    return candidates[: ids.index(end) + 1] if end in ids else candidates


def _expect_drafts(trace: Trace) -> None:
    config = trace.config
    if config.rule != "lossless" or config.branching or not config.fixed_length:
        raise ConfigError(
            "A run is no row of γ candidates judged by odds, or of several side by side.",
            remedy="Choose the lossless rule and a number of drafts.",
        )
    if config.greedy:
        raise ConfigError(
            "A run is greedy: none of its verdicts is a matter of luck.",
            remedy="Give a temperature above 0.",
        )
