"""What a reason to stop drafting reaches of the oracle, on the rounds of a run that never stopped.

The oracle drafts a round's accepted candidates and no more: its round costs a c + v(a + 1) for
a + 1 tokens. A reason that ends the draft after k candidates emits min(a, k) + 1 tokens for
k c + v(k + 1). All look at the same rounds, each from where it began in the run; a run of its own
would begin them elsewhere. So this compares reasons, and foretells no speed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specviz.errors import ConfigError
from specviz.record.trace import Candidate, DraftingCosts, StepCosts, Trace

Stop = Callable[[Sequence[Candidate]], int]  # of a round's candidates, how many are drafted

ORACLE = "oracle"
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """``cost`` in steps of the target alone; ``share``: of the oracle's tokens a step."""

    name: str
    drafted: int
    tokens: int
    cost: float
    share: float

    @property
    def rate(self) -> float:
        """Tokens a step of the target alone."""
        return self.tokens / self.cost


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachOverRuns:
    """``counts``: after 1, 2 … candidates; ``unsure``: by `THRESHOLDS`; ``own``: of runs that
    ended their drafts themselves."""

    oracle: Reach
    counts: tuple[Reach, ...]
    unsure: tuple[Reach, ...]
    own: tuple[Reach, ...]
    costs: DraftingCosts  # of the first run

    @property
    def best_count(self) -> int:
        return 1 + max(range(len(self.counts)), key=lambda place: self.counts[place].rate)


def after_count(count: int) -> Stop:
    return lambda candidates: min(count, len(candidates))


def behind_unlikely(threshold: float) -> Stop:
    """Behind a candidate with a draft chance below this; at temperature 0, its chance at 1."""

    def stop(candidates: Sequence[Candidate]) -> int:
        for place, each in enumerate(candidates):
            if _sureness(each) < threshold:
                return place + 1
        return len(candidates)

    return stop


def stopping_reach(
    traces: Sequence[Trace], stops: Mapping[str, Stop], costs: DraftingCosts | None = None
) -> tuple[Reach, ...]:
    """The oracle first, then the reasons by name; whole rounds only, none if there are none.

    ``costs`` in place of those of each run.
    """
    for trace in traces:
        _expect_unstopped(trace)
    rounds = _rounds(traces, costs)
    if not rounds:
        return ()
    oracle = _reach(ORACLE, rounds, [each.accepted for each in rounds])
    return (
        oracle,
        *(
            _reach(name, rounds, [stop(each.candidates) for each in rounds], oracle)
            for name, stop in stops.items()
        ),
    )


def own_reach(
    name: str, traces: Sequence[Trace], oracle: Reach, costs: DraftingCosts | None = None
) -> Reach | None:
    """Of runs that ended their drafts themselves: their own rounds, at the same prices. None if
    they have no whole rounds."""
    rounds = _rounds(traces, costs)
    return (
        _reach(name, rounds, [len(each.candidates) for each in rounds], oracle) if rounds else None
    )


def reach_over_runs(traces: Sequence[Trace]) -> ReachOverRuns | None:
    """All of them: the runs that never stopped give the oracle, counts and thresholds, and the
    others what they reached themselves. None without a whole round of the first."""
    never = [each for each in traces if each.config.formulas_hold]
    longest = min((each.config.gamma for each in never), default=0)
    counts = {str(count): after_count(count) for count in range(1, longest + 1)}
    unsure = {f"confidence:{each:g}": behind_unlikely(each) for each in THRESHOLDS}
    found = stopping_reach(never, counts | unsure)
    if not found:
        return None
    ways = dict.fromkeys(
        each.config.draft_until for each in traces if not each.config.formulas_hold
    )
    own = (
        own_reach(way, [each for each in traces if each.config.draft_until == way], found[0])
        for way in ways
    )
    return ReachOverRuns(
        oracle=found[0],
        counts=found[1 : 1 + longest],
        unsure=found[1 + longest :],
        own=tuple(each for each in own if each is not None),
        costs=drafting_costs_of(never[0]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PricedRound:
    candidates: Sequence[Candidate]
    accepted: int
    costs: DraftingCosts


def _rounds(traces: Sequence[Trace], costs: DraftingCosts | None) -> list[_PricedRound]:
    priced = [(trace, costs or drafting_costs_of(trace)) for trace in traces]
    return [
        _PricedRound(candidates=each.candidates, accepted=each.num_accepted, costs=known)
        for trace, known in priced
        for each in trace.rounds
        if each.whole
    ]


def _expect_unstopped(trace: Trace) -> None:
    if not trace.config.formulas_hold:
        raise ConfigError(
            "These rounds are no chains of γ candidates judged one by one.",
            remedy="Run with draft_until=count and a large γ.",
        )
    drafted = [entry.candidates[0] for entry in trace.rounds if entry.whole and entry.candidates]
    if trace.config.greedy and any(each.insight is None for each in drafted):
        raise ConfigError(
            "A greedy run without its record does not tell how sure the draft was.",
            remedy="Run it again with the record on.",
        )


def drafting_costs_of(trace: Trace) -> DraftingCosts:
    """Those that the run decided by, else from its step costs at its mean context."""
    if trace.drafting_costs is not None:
        return trace.drafting_costs
    costs = trace.step_costs
    if costs is None or not costs.draft:
        raise ConfigError("This run has no step costs.", remedy="Run it with its pair measured.")
    context = len(trace.prompt.token_ids) + len(trace.token_ids) / 2
    return drafting_costs(costs, context, trace.config.gamma)


def drafting_costs(costs: StepCosts, context: float, gamma: int) -> DraftingCosts:
    """At one context, in steps of the target alone there; of a drafter that is a model."""
    step = costs.target_step(context)
    first = costs.draft_phase(context, 1)
    return DraftingCosts(
        draft_first=first / step,
        draft_next=(costs.draft_phase(context, 2) - first) / step,
        verify=tuple(costs.verify(context, tokens + 1) / step for tokens in range(gamma + 1)),
    )


def _reach(
    name: str, rounds: Sequence[_PricedRound], drafted: Sequence[int], oracle: Reach | None = None
) -> Reach:
    pairs = list(zip(rounds, drafted, strict=True))
    tokens = sum(min(count, each.accepted) + 1 for each, count in pairs)
    cost = math.fsum(_round_cost(each.costs, count) for each, count in pairs)
    share = 1.0 if oracle is None else tokens / cost / oracle.rate
    return Reach(name=name, drafted=sum(drafted), tokens=tokens, cost=cost, share=share)


def _round_cost(costs: DraftingCosts, count: int) -> float:
    if count >= len(costs.verify):
        raise ConfigError(
            f"There is no cost of verifying {count + 1} tokens.", remedy="Run with a smaller γ."
        )
    drafting = costs.draft_first + (count - 1) * costs.draft_next if count else 0.0
    return drafting + costs.verify[count]


def _sureness(candidate: Candidate) -> float:
    """At temperature 0 the run's own law is a one-hot, and the record has the law at 1."""
    return candidate.insight.draft_prob if candidate.insight is not None else candidate.draft_prob
