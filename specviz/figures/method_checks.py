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
from statistics import NormalDist, geometric_mean
from typing import Never

from specviz.errors import ConfigError
from specviz.figures.timing import timing_of
from specviz.record.run_config import RunConfig
from specviz.record.shapes import Shape, shape_text
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
    """The runs with one γ and number of drafts, or one tree.

    A place is rejected if all its candidates fall. ``num_rounds`` leaves out those that a limit
    kept short, which is settled before they are drafted; what ends by itself is not left out.
    """

    gamma: int  # of a tree, its depth
    num_drafts: int
    branching: Shape
    num_candidates: int  # the most of a round
    num_runs: int
    num_tokens: int  # emitted
    num_places: int  # tested
    num_rounds: int
    accepted: Count  # of the tested candidates of these rounds
    fallen: Count  # of the tested candidates
    rejected: Count  # of the places whose last candidate was tested
    speedups: tuple[float, ...] = ()  # of the runs that were timed

    @property
    def speedup(self) -> float | None:
        """The geometric mean over the runs that were timed."""
        return geometric_mean(self.speedups) if self.speedups else None

    @property
    def label(self) -> str:
        if self.branching:
            return f"tree {shape_text(self.branching)}"
        return f"γ {self.gamma} × M {self.num_drafts}"

    @property
    def tau(self) -> float:
        """Of these rounds, as if each gave one token more than stood."""
        return 1.0 + self.accepted.observed / self.num_rounds

    @property
    def tau_expected(self) -> float:
        return 1.0 + self.accepted.expected / self.num_rounds

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
    # Accepted a round by other runs, on the same prompts, that judged token by token.
    token_runs: float | None = None

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
    """A point for each γ and number of drafts, in their order, then for each tree.

    Only runs of γ candidates or of trees, judged by odds and not greedy. Unlike texts of theorem 3,
    a round of γ candidates also ends without a rejection, so its floor does not bind these runs.
    """
    groups: dict[tuple[Shape, int, int], list[Trace]] = {}
    for trace in traces:
        if not counts_drafts(trace.config):
            _refuse_drafts(trace.config)
        config = trace.config
        key = config.branching, config.depth, config.num_drafts
        groups.setdefault(key, []).append(trace)
    points = (_drafts_point(groups[key]) for key in sorted(groups))
    return tuple(point for point in points if point.num_places and point.num_rounds)


def counts_drafts(config: RunConfig) -> bool:
    """Whether a run with these settings is one of those that `rejections_over_drafts` takes."""
    return config.rule == "lossless" and config.fixed_length and not config.greedy


def joint_deviations(number: int, level: float = 0.99) -> float:
    """So many normal deviates lie all within this many standard deviations with this chance, or a
    greater one (Bonferroni)."""
    return NormalDist().inv_cdf(1.0 - (1.0 - level) / (2 * number))


def block_check(traces: Sequence[Trace], beside: Sequence[Trace] = ()) -> BlockCheck:
    """Block verification against token by token on the drafts of the same rounds.

    ``beside``: other runs that did judge token by token.
    Candidates behind the token that ended a text do not count, in any of its rounds; the round that
    a stop string cut is left out.
    """
    if any(trace.config.rule != "block" for trace in traces):
        raise ConfigError("A run does not judge blocks.", remedy="Choose the rule block.")
    return BlockCheck(
        rounds=tuple(each for trace in traces for each in _block_rounds(trace)),
        token_runs=_accepted_a_round(beside),
    )


def _accepted_a_round(traces: Sequence[Trace]) -> float | None:
    """Measured, whatever the rule; None without a round. The round that a stop string cut is left
    out."""
    rounds = [entry for trace in traces for entry in trace.rounds if entry.cut != "stop"]
    return sum(each.num_accepted for each in rounds) / len(rounds) if rounds else None


def places_of(entry: Round) -> Iterator[tuple[Candidate, ...]]:
    """The candidates of a round by the place that they were drafted for, as they were drawn."""
    if all(each.parent is None for each in entry.candidates):
        yield from ((each,) for each in entry.candidates)
        return
    for _, siblings in groupby(entry.candidates, key=lambda each: each.parent):
        yield tuple(siblings)


def _drafts_point(traces: Sequence[Trace]) -> DraftsPoint:
    config = traces[0].config
    rounds = [entry for trace in traces for entry in trace.rounds]
    places = [place for entry in rounds for place in places_of(entry) if place[0].tested]
    unlimited = [entry for entry in rounds if entry.cut not in ("length", "context")]
    fallen = _falling([each for entry in unlimited for each in entry.candidates if each.tested])
    tested = sum(entry.num_tested for entry in unlimited)
    return DraftsPoint(
        gamma=config.depth,
        num_drafts=config.num_drafts,
        branching=config.branching,
        num_candidates=config.most_candidates,
        num_rounds=len(unlimited),
        accepted=Count(
            observed=tested - fallen.observed,
            expected=tested - fallen.expected,
            variance=fallen.variance,
        ),
        num_runs=len(traces),
        num_tokens=sum(len(trace.token_ids) for trace in traces),
        num_places=len(places),
        fallen=_falling([each for place in places for each in place if each.tested]),
        rejected=_falling([place[-1] for place in places if place[-1].tested]),
        speedups=tuple(
            timing.speedup
            for trace in traces
            if (timing := timing_of(trace.baseline, trace.rounds)) is not None
        ),
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


def _refuse_drafts(config: RunConfig) -> Never:
    if config.greedy:
        raise ConfigError(
            "A run is greedy: none of its verdicts is a matter of luck.",
            remedy="Give a temperature above 0.",
        )
    raise ConfigError(
        "A run has no rounds of γ candidates, or trees, judged by odds.",
        remedy="Choose the lossless rule and a number of drafts, or a tree.",
    )
