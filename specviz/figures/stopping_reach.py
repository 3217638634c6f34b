"""Compare criteria for when to stop drafting, on rounds that drafted all γ candidates.

Let c be the cost of a draft step and v(m) the cost of verifying m tokens. If a round accepts n
candidates, a criterion that stops after k candidates emits min(n, k) + 1 tokens at the cost
k c + v(k + 1). The oracle knows n and stops after n candidates. All criteria are applied to the
same recorded rounds. In a run with a criterion, rounds would begin at other tokens, so the result
compares criteria and does not predict speed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from specviz.errors import ConfigError
from specviz.record.trace import Candidate, DraftingCosts, StepCosts, Trace
from specviz.values import Value

Stop = Callable[[Sequence[Candidate]], int]  # candidates of a round -> how many are drafted

ORACLE = "oracle"
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class Reach(Value):
    """The tokens and the cost of a set of rounds, had a criterion ended their drafting.

    ``cost`` is in target steps. ``share`` is ``rate`` divided by the rate of the oracle, which
    stops before the first rejection.
    """

    name: str
    drafted: int
    tokens: int
    cost: float
    share: float

    @property
    def rate(self) -> float:
        """Tokens per target step."""
        return self.tokens / self.cost


class ReachOverRuns(Value):
    """A `Reach` for each criterion, computed from several runs.

    ``counts``: stopping after 1, 2, … candidates. ``unsure``: for each of `THRESHOLDS`, stopping
    after a candidate with a lower draft probability. ``own``: the criteria by which some of the
    runs stopped drafting. The `Reach` of such a criterion comes from the runs that used it.
    """

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


def below_confidence(threshold: float) -> Stop:
    """Return a criterion that stops after a candidate with draft probability below the threshold.

    In runs at temperature 0, the draft probability at temperature 1 is used.
    """

    def stop(candidates: Sequence[Candidate]) -> int:
        for place, each in enumerate(candidates):
            if _confidence(each) < threshold:
                return place + 1
        return len(candidates)

    return stop


def stopping_reach(
    traces: Sequence[Trace], stops: Mapping[str, Stop], costs: DraftingCosts | None = None
) -> tuple[Reach, ...]:
    """Return a `Reach` for the oracle, then for each criterion; empty without whole rounds.

    Args:
        costs: The costs to use for all runs; by default, each run's own costs are used.

    Raises:
        ConfigError: A run stopped drafting early, has no costs, or is greedy without recorded
            draft probabilities.
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
    """Return the `Reach` of a criterion in the runs that used it; None without whole rounds."""
    rounds = _rounds(traces, costs)
    return (
        _reach(name, rounds, [len(each.candidates) for each in rounds], oracle) if rounds else None
    )


def reach_over_runs(traces: Sequence[Trace]) -> ReachOverRuns | None:
    """Return a `Reach` for each criterion, computed from these runs.

    Runs that always draft γ candidates give ``oracle``, ``counts`` and ``unsure``; runs that
    stopped drafting by a criterion give ``own``. The result is None if no run that always drafts γ
    candidates has a whole round.
    """
    unstopped = [each for each in traces if each.config.formulas_hold]
    longest = min((each.config.gamma for each in unstopped), default=0)
    counts = {str(count): after_count(count) for count in range(1, longest + 1)}
    unsure = {f"confidence:{each:g}": below_confidence(each) for each in THRESHOLDS}
    found = stopping_reach(unstopped, counts | unsure)
    if not found:
        return None
    criteria = dict.fromkeys(
        each.config.draft_until for each in traces if not each.config.formulas_hold
    )
    own = (
        own_reach(name, [each for each in traces if each.config.draft_until == name], found[0])
        for name in criteria
    )
    return ReachOverRuns(
        oracle=found[0],
        counts=found[1 : 1 + longest],
        unsure=found[1 + longest :],
        own=tuple(each for each in own if each is not None),
        costs=drafting_costs_of(unstopped[0]),
    )


class _PricedRound(Value):
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
            "The comparison with the oracle needs runs that always draft a chain of γ candidates "
            "and judge token by token.",
            remedy="Run with draft_until=count and a large γ.",
        )
    drafted = [entry.candidates[0] for entry in trace.rounds if entry.whole and entry.candidates]
    if trace.config.greedy and any(each.insight is None for each in drafted):
        raise ConfigError(
            "This greedy run was made without recording, so the draft's probabilities are missing.",
            remedy="Run it again with recording on.",
        )


def drafting_costs_of(trace: Trace) -> DraftingCosts:
    """Return the costs that the run's stopping criterion used.

    If the criterion used no costs, return the run's step costs at the middle of the text.

    Raises:
        ConfigError: The run's criterion used no costs, and the run has no step costs.
    """
    if trace.drafting_costs is not None:
        return trace.drafting_costs
    costs = trace.step_costs
    if costs is None or not costs.draft:
        raise ConfigError(
            "This run has no step costs.",
            remedy="Measure the step costs of the pair, then repeat the run.",
        )
    context = len(trace.prompt.token_ids) + len(trace.token_ids) / 2
    return drafting_costs(costs, context, trace.config.gamma)


def drafting_costs(costs: StepCosts, context: float, gamma: int) -> DraftingCosts:
    """Return the costs of draft steps and verifications at one context, in target steps."""
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
            f"The step costs include no cost of verifying {count + 1} tokens.",
            remedy="Run with a smaller γ.",
        )
    drafting = costs.draft_first + (count - 1) * costs.draft_next if count else 0.0
    return drafting + costs.verify[count]


def _confidence(candidate: Candidate) -> float:
    # At temperature 0, ``draft_prob`` is 0 or 1; the insight has the probability at temperature 1.
    return candidate.insight.draft_prob if candidate.insight is not None else candidate.draft_prob
