"""Check runs with several drafts or block verification against exact expectations.

With several drafts, candidates of one position (siblings) are tested in turn, and whether a sibling
is tested is decided before it is drawn. So the number of rejections minus the sum of the rejection
probabilities has mean 0.

With block verification, the weight p_i is the probability that at least i candidates are accepted,
given the first i candidates. So the sum of the weights is the expected number of accepted
candidates. All values come from the traces of runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from operator import mul
from statistics import NormalDist, geometric_mean
from typing import Never

from specviz.errors import ConfigError
from specviz.figures.acceptance import tested_in
from specviz.figures.timing import timing_of
from specviz.record.run_config import RunConfig
from specviz.record.shapes import Shape, shape_text
from specviz.record.trace import Candidate, Round, Trace
from specviz.values import Value


class Count(Value):
    """An observed and an expected count, with the variance of the observed count.

    ``z`` is observed - expected in standard deviations; None if nothing was random.
    """

    observed: int
    expected: float
    variance: float

    @property
    def z(self) -> float | None:
        off = self.observed - self.expected
        return off / math.sqrt(self.variance) if self.variance > 0.0 else None


class DraftsPoint(Value):
    """Counts of all runs with the same γ and number of drafts, or with the same tree.

    A *place* is the set of candidates with the same parent. A place is rejected if all its
    candidates are rejected. ``num_rounds`` leaves out rounds that the length or context limit ends
    early (cuts). This causes no bias, because such a cut is known before drafting. Rounds cut by
    EOS or a stop string are included.
    """

    gamma: int  # the depth of a tree
    num_drafts: int
    branching: Shape
    num_candidates: int  # maximum per round
    num_runs: int
    num_tokens: int  # emitted
    num_places: int  # tested
    num_rounds: int
    accepted: Count  # accepted candidates, in these rounds
    fallen: Count  # rejected candidates, in all rounds
    rejected: Count  # rejected places
    speedups: tuple[float, ...] = ()  # of the timed runs

    @property
    def speedup(self) -> float | None:
        """The geometric mean of the speedups of the timed runs."""
        return geometric_mean(self.speedups) if self.speedups else None

    @property
    def label(self) -> str:
        if self.branching:
            return f"tree {shape_text(self.branching)}"
        return f"γ {self.gamma} × M {self.num_drafts}"

    @property
    def tau(self) -> float:
        """Tokens per round, counted as the accepted candidates and one extra token."""
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


class BlockRound(Value):
    """A round's accepted candidates: observed, and expected with block or token verification."""

    accepted: int
    by_block: float  # sum of p_i
    by_token: float  # sum of products of min(1, target/draft): never above by_block


class BlockCheck(Value):
    rounds: tuple[BlockRound, ...]
    # Accepted candidates per round in token-by-token runs on the same prompts.
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
        """The observed minus the expected number of accepted candidates, in standard errors.

        The standard error comes from the differences accepted - expected in each round. The result
        is None without variance.
        """
        error = math.sqrt(math.fsum((each.accepted - each.by_block) ** 2 for each in self.rounds))
        return (self.accepted - self.by_block) / error if error > 0.0 else None


def rejections_over_drafts(traces: Sequence[Trace]) -> tuple[DraftsPoint, ...]:
    """Return one point for each γ and number of drafts, then one for each tree.

    The bound of theorem 3 (Yin et al. 2024) does not apply to these runs. The theorem does not
    cover rounds that end after γ candidates without a rejection.

    Raises:
        ConfigError: A run is greedy, not lossless, or has rounds of varying length.
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
    """Return whether `rejections_over_drafts` accepts runs with these settings."""
    return config.rule == "lossless" and config.fixed_length and not config.greedy


def joint_deviations(number: int, level: float = 0.99) -> float:
    """Return k such that all of ``number`` z-scores lie within ± k.

    By the Bonferroni correction, this holds with probability ``level`` or more.
    """
    return NormalDist().inv_cdf(1.0 - (1.0 - level) / (2 * number))


def block_check(traces: Sequence[Trace], beside: Sequence[Trace] = ()) -> BlockCheck:
    """Compare block verification with token-by-token verification on the same drafts.

    Candidates after the end-of-text token do not count. Rounds cut by a stop string are left out.

    Args:
        beside: Runs with token-by-token verification on the same prompts.

    Raises:
        ConfigError: One of ``traces`` does not use block verification.
    """
    if any(trace.config.rule != "block" for trace in traces):
        raise ConfigError("One run does not use block verification.", remedy="Choose rule=block.")
    return BlockCheck(
        rounds=tuple(each for trace in traces for each in _block_rounds(trace)),
        token_runs=_accepted_a_round(beside),
    )


def _accepted_a_round(traces: Sequence[Trace]) -> float | None:
    """Return the mean accepted candidates per round; None without rounds.

    Rounds cut by a stop string are left out.
    """
    rounds = [entry for trace in traces for entry in trace.rounds if entry.cut != "stop"]
    return sum(each.num_accepted for each in rounds) / len(rounds) if rounds else None


def places_of(entry: Round) -> Iterator[tuple[Candidate, ...]]:
    """Yield the candidates of a round, grouped by their parent, in drawing order.

    Without a tree and with one draft, each candidate is a group of its own.
    """
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
    candidates = tested_in(unlimited)
    rejections, tested = _rejections(candidates), len(candidates)
    return DraftsPoint(
        gamma=config.depth,
        num_drafts=config.num_drafts,
        branching=config.branching,
        num_candidates=config.most_candidates,
        num_rounds=len(unlimited),
        accepted=Count(
            observed=tested - rejections.observed,
            expected=tested - rejections.expected,
            variance=rejections.variance,
        ),
        num_runs=len(traces),
        num_tokens=sum(len(trace.token_ids) for trace in traces),
        num_places=len(places),
        fallen=_rejections([each for place in places for each in place if each.tested]),
        rejected=_rejections([place[-1] for place in places if place[-1].tested]),
        speedups=tuple(
            timing.speedup
            for trace in traces
            if (timing := timing_of(trace.baseline, trace.rounds)) is not None
        ),
    )


def _rejections(tested: Sequence[Candidate]) -> Count:
    # Sums of float32 probabilities can slightly exceed 1.
    probs = [1.0 - min(1.0, each.expected_acceptance) for each in tested]
    return Count(
        observed=sum(each.verdict == "rejected" for each in tested),
        expected=math.fsum(probs),
        variance=math.fsum(prob * (1.0 - prob) for prob in probs),
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
    """Return the candidates up to and including the first end-of-text token."""
    ids = [each.token_id for each in candidates]
    return candidates[: ids.index(end) + 1] if end in ids else candidates


def _refuse_drafts(config: RunConfig) -> Never:
    if config.greedy:
        raise ConfigError(
            "One of the runs is greedy, so its verdicts are not random.",
            remedy="Give a temperature above 0.",
        )
    raise ConfigError(
        "One of the runs does not use the lossless rule, or its number of candidates varies.",
        remedy="Choose the lossless rule, and several drafts or a tree.",
    )
