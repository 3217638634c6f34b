"""Step costs from the timed slices of runs.

In a slice, some rounds of a run are timed between two passes of the target alone over the same
tokens. A phase is the drafting, the verification or the rest of a round. Its cost is its time
divided by the time of a plain step (one token of the target alone). The cost in a run is the
trimmed geometric mean over its slices. ``process_spread`` combines the costs of earlier runs. Costs
that no run has covered come from a directly measured table, scaled to agree with the runs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean, median

from specviz.figures.process_spread import (
    Cost,
    combined_cost,
    error_of_one_process,
    spread_of_drafting,
    usual_spread,
)
from specviz.figures.timing import trimmed_mean
from specviz.record.run_config import RunConfig
from specviz.record.step_costs import Phase, PhaseCost, RunCosts, ShapeCosts, StepCosts
from specviz.record.trace import Baseline, Round, Slice

_FEWEST = 2  # the fewest slices for a cost and its error
_LEAST_ERROR = 1e-3  # of the logarithm of a cost, so that weights stay finite
_TINY = 1e-6  # the smallest cost, in plain steps, because 0 has no logarithm

_Kind = tuple[Phase, int, int]  # phase, candidates, tokens of the first draft step


def costs_of_run(
    baseline: Baseline | None, rounds: Sequence[Round], *, created: str, process: str
) -> RunCosts | None:
    """Return the costs of a run's phases; None if too few slices contain the phases' times."""
    slices = [each for each in baseline.slices if each.phases] if baseline else []
    if len(slices) < _FEWEST:
        return None
    found: dict[_Kind, list[float]] = defaultdict(list)
    steps = [_plain_step(each, rounds) for each in slices]
    for each, step in zip(slices, steps, strict=True):
        for kind, seconds in _phases_of(each):
            found[kind].append(math.log(max(_TINY, seconds / step)))
    phases: list[PhaseCost] = []
    for (phase, candidates, fed), logs in sorted(found.items()):
        if len(logs) >= _FEWEST:
            mean, error = trimmed_mean(logs)
            phases.append(
                PhaseCost(
                    phase=phase, candidates=candidates, fed=fed, cost=math.exp(mean), error=error
                )
            )
    log_step, _ = trimmed_mean([math.log(step) for step in steps])
    timed = [rounds[place] for each in slices for place in range(each.first, each.last)]
    return RunCosts(
        created=created,
        process=process,
        context=fmean(entry.context_length for entry in timed),
        step=math.exp(log_step),
        phases=tuple(phases),
        others=baseline.conditions.others if baseline and baseline.conditions else None,
    )


def _plain_step(each: Slice, rounds: Sequence[Round]) -> float:
    tokens = sum(len(entry.emitted) for entry in rounds[each.first : each.last])
    return fmean(each.target) / tokens


def _phases_of(each: Slice) -> Iterator[tuple[_Kind, float]]:
    """Yield the mean seconds of each phase in a slice, by the number of candidates in the round.

    Draft phases are also separated by the number of tokens that their first step was fed.
    """
    by_candidates: dict[int, list[tuple[int, float, float]]] = defaultdict(list)
    for kind in each.phases:
        if kind.draft > 0:
            yield ("draft", kind.candidates, kind.fed), kind.draft
        by_candidates[kind.candidates].append((kind.rounds, kind.verify, kind.other))
    for candidates, parts in by_candidates.items():
        count = sum(rounds for rounds, _, _ in parts)
        yield ("verify", candidates, 0), sum(n * verify for n, verify, _ in parts) / count
        yield ("other", candidates, 0), sum(n * other for n, _, other in parts) / count


# Several runs


def fitted_costs(
    runs: Sequence[RunCosts],
    table: StepCosts | None,
    trees: RunConfig | None = None,
    *,
    searches: bool = False,
) -> StepCosts | None:
    """Return the step costs for another run; None if there are neither runs nor a table.

    Args:
        trees: The runs' configuration if their rounds have trees or several drafts, else None.
        searches: Whether the drafter only searches the text. If so, its time counts as overhead.
    """
    usable = [run for run in runs if run.phases]
    if not usable:
        return table
    others = [run.others for run in usable if run.others is not None]
    fit = _Fit(usable, table, searches=searches)
    made = fit.trees(trees) if trees is not None else fit.chains()
    return replace(
        made,
        runs=len(usable),
        processes=len({run.process for run in usable}),
        table=table is not None,
        drift=0.0,
        samples=None,
        others=median(others) if others else None,
        **fit.overhead(),
    )


class _Fit:
    """Step costs that are fitted to runs of one pair and to the measured table, if any."""

    def __init__(
        self, runs: Sequence[RunCosts], table: StepCosts | None, *, searches: bool
    ) -> None:
        self._searches = searches
        found: dict[_Kind, list[tuple[str, PhaseCost]]] = defaultdict(list)
        for run in runs:
            for each in run.phases:
                found[each.phase, each.candidates, each.fed].append((run.process, each))
        self._usual = usual_spread(median(run.step for run in runs))
        self._costs = {kind: self._combined(kind[0], costs) for kind, costs in found.items()}
        self._context = median(run.context for run in runs)
        known = [run.bandwidth for run in runs if run.bandwidth is not None]
        self._bandwidth = median(known) if known else None
        self._table = table
        if table is None:
            self._step = median(run.step for run in runs)
        else:
            scale = median(run.step / table.target_step(run.context) for run in runs)
            self._step = scale * table.target_step(self._context)
        self._scale = 1.0 if table is None else self._step / table.target_step(self._context)

    def _combined(self, phase: Phase, costs: Sequence[tuple[str, PhaseCost]]) -> Cost:
        cost = median(each.cost for _, each in costs)
        usual = spread_of_drafting(self._usual, cost) if phase == "draft" else self._usual
        return combined_cost(costs, usual)

    def _known(self, phase: Phase) -> dict[tuple[int, int], Cost]:
        return {(n, fed): cost for (of, n, fed), cost in self._costs.items() if of == phase}

    @property
    def _contexts(self) -> tuple[int, ...]:
        return (max(1, round(self._context)),) if self._table is None else self._table.contexts

    @property
    def _steps(self) -> tuple[float, ...]:
        """The seconds of a plain step (one token of the target alone) at each context."""
        if self._table is None:
            return (self._step,)
        return tuple(self._scale * each for each in self._table.target[0])

    def _at_contexts(self, ratio: float) -> tuple[float, ...]:
        return tuple(ratio * step for step in self._steps)

    # Chains

    def chains(self) -> StepCosts:
        verified = {n + 1: cost for (n, _), cost in self._known("verify").items() if n > 0}
        rows, row_errors, unknown = self._verifications(verified)
        target, errors = _rising(rows, row_errors)
        draft, draft_next, draft_errors = self._draft_steps()
        made = StepCosts(
            contexts=self._contexts,
            draft=draft,
            draft_next=draft_next,
            target=target,
            target_errors=errors,
            draft_errors=draft_errors,
            interpolated=unknown,
        )
        table = self._table
        if table is None:
            return replace(made, bandwidth=self._bandwidth)
        return replace(
            made, bandwidth=table.bandwidth, draft_reads=table.draft_reads,
            target_reads=table.target_reads, shape=table.shape,
        )  # fmt: skip

    def _verifications(
        self, known: dict[int, Cost]
    ) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...], tuple[int, ...]]:
        """Return ``StepCosts.target`` (seconds), its errors, and which rows are interpolated."""
        table = self._table
        if table is None:
            points = {1: Cost(cost=1.0, error=0.0), **known}
            return self._rows_between(points)
        logs = {1: 0.0}
        for tokens, cost in known.items():
            if tokens <= len(table.target):
                logs[tokens] = math.log(cost.cost / self._table_ratio(tokens))
        rows, errors = [self._steps], [0.0]
        for tokens in range(2, len(table.target) + 1):
            factor = self._scale * math.exp(_line(logs, tokens))
            rows.append(tuple(factor * each for each in table.target[tokens - 1]))
            own = known.get(tokens)
            errors.append(own.error if own else self._table_error(tokens, logs))
        unknown = [each for each in table.interpolated if each not in known]
        longer = {tokens: cost for tokens, cost in known.items() if tokens > len(rows)}
        if longer:
            last = math.exp(_line(logs, len(rows))) * self._table_ratio(len(rows))
            points = {len(rows): Cost(cost=last, error=errors[-1]), **longer}
            more, more_errors, more_unknown = self._rows_between(points)
            rows += more[1:]
            errors += more_errors[1:]
            unknown += more_unknown
        return tuple(rows), tuple(errors), tuple(unknown)

    def _rows_between(
        self, points: dict[int, Cost]
    ) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...], tuple[int, ...]]:
        """Return seconds for each number of tokens, the errors, and which rows are interpolated."""
        tokens = range(min(points), max(points) + 1)
        cells = [_between(points, each) for each in tokens]
        rows = tuple(self._at_contexts(cell.cost) for cell in cells)
        errors = tuple(cell.error for cell in cells)
        return rows, errors, tuple(each for each in tokens if each not in points)

    def _table_ratio(self, tokens: int) -> float:
        assert self._table is not None
        return self._table.verify(self._context, tokens) / self._table.target_step(self._context)

    def _table_error(self, tokens: int, logs: dict[int, float]) -> float:
        """Return the error of a row of the table, including the runs' disagreement with it."""
        assert self._table is not None
        errors = self._table.target_errors
        own = math.hypot(errors[tokens - 1], errors[0]) if errors else 0.0
        disagreement = max(abs(each) for each in logs.values())
        return math.hypot(own, disagreement, error_of_one_process(self._usual))

    def _draft_steps(
        self,
    ) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...], tuple[float, ...]]:
        """Return the seconds of first and of later draft steps, and their errors."""
        if self._searches:
            return (), (), ()
        known = {kind: cost for kind, cost in self._known("draft").items() if kind[0] > 0}
        if not known:
            table = self._table
            if table is None or not table.draft:
                return (), (), ()
            scaled = tuple(tuple(self._scale * each for each in row) for row in table.draft)
            later = tuple(self._scale * each for each in table.draft_next)
            return scaled, later, table.draft_errors
        first, later = self._first_and_later(known)
        extra = [
            (cost.cost - (n - 1) * later - first) / (fed - 1)
            for (n, fed), cost in known.items()
            if fed > 1
        ]
        first_of_two = first + max(0.0, fmean(extra)) if extra else first * self._share_of_two()
        every = max(cost.error for cost in known.values())
        error = max((cost.error for (_, fed), cost in known.items() if fed < 2), default=every)
        rows = (self._at_contexts(first), self._at_contexts(first_of_two))
        return rows, self._at_contexts(later), (error, every, error)

    def _first_and_later(self, known: dict[tuple[int, int], Cost]) -> tuple[float, float]:
        """Return the cost of a first draft step with one token, and that of a later draft step.

        The unit is a plain step. The ratio of the two costs comes from the table. Without a table,
        it comes from rounds with different numbers of candidates. Otherwise, it is 1.
        """
        ones = {n: cost.cost for (n, fed), cost in known.items() if fed < 2}
        ones = ones or {n: cost.cost for (n, _), cost in known.items()}
        (shortest, least), (longest, most) = min(ones.items()), max(ones.items())
        table = self._table
        if table is not None and table.draft:
            step = table.target_step(self._context)
            phases = {n: table.draft_phase(self._context, n) / step for n in ones}
            factor = math.exp(fmean(math.log(ones[n] / phases[n]) for n in ones))
            first = table.draft_phase(self._context, 1) / step
            later = table.draft_phase(self._context, 2) / step - first
            return factor * first, factor * later
        later = most / longest
        if longest > shortest:
            later = min(later, max(_TINY, (most - least) / (longest - shortest)))
        return max(_TINY, most - (longest - 1) * later), later

    def _share_of_two(self) -> float:
        """Return the ratio of a first draft step's times with two tokens and one; 1 if unknown."""
        table = self._table
        if table is None or len(table.draft) < 2:
            return 1.0
        return table.draft_step(self._context, 2) / table.draft_step(self._context)

    # Trees

    def trees(self, config: RunConfig) -> StepCosts:
        table = self._table or StepCosts(contexts=self._contexts, draft=(), target=(self._steps,))
        scaled = replace(
            table, target=tuple(tuple(self._scale * each for each in row) for row in table.target)
        )
        drafting, verifying = (_largest(self._known(phase)) for phase in ("draft", "verify"))
        if verifying is None:
            return scaled
        made = ShapeCosts(
            shape=config.shape,
            dynamic=config.dynamic_tree,
            draft=self._at_contexts(drafting.cost if drafting else 0.0),
            verify=self._at_contexts(verifying.cost),
            draft_error=drafting.error if drafting else 0.0,
            verify_error=verifying.error,
        )
        return replace(scaled, shape=made)

    # Outside the models

    def overhead(self) -> dict[str, float]:
        known = self._known("other")
        if not known:
            return {}
        costs = {n: cost.cost for (n, _), cost in known.items()}
        searched = self._known("draft") if self._searches else {}
        for n in costs.keys() & {n for n, _ in searched}:
            costs[n] += fmean(cost.cost for (of, _), cost in searched.items() if of == n)
        (fewest, least), (longest, most) = min(costs.items()), max(costs.items())
        each = max(0.0, (most - least) / (longest - fewest)) if longest > fewest else 0.0
        return {
            "overhead": self._step * max(0.0, most - each * longest),
            "overhead_each": self._step * each,
            "overhead_error": max(cost.error for cost in (*known.values(), *searched.values())),
        }


def _rising(
    rows: tuple[tuple[float, ...], ...], errors: tuple[float, ...]
) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    """Return the rows, changed so that the cost of a verification never falls with more tokens.

    At each context, this is the isotonic regression of the logarithms, weighted by precision. The
    first row, the plain step, is left out, so a verification may cost less than a plain step.
    The returned errors include how far each row was moved.
    """
    weights = [max(_LEAST_ERROR, error) ** -2 for error in errors[1:]]
    moves = [
        (0.0, *_moves_to_rise([math.log(row[at]) for row in rows[1:]], weights))
        for at in range(len(rows[0]))
    ]
    risen = tuple(
        tuple(math.exp(move) * each for each, move in zip(row, moved, strict=True))
        for row, moved in zip(rows, zip(*moves, strict=True), strict=True)
    )
    farthest = [max(map(abs, moved)) for moved in zip(*moves, strict=True)]
    return risen, tuple(math.hypot(*pair) for pair in zip(errors, farthest, strict=True))


def _moves_to_rise(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the changes by which isotonic regression makes the values nondecreasing."""
    pools: list[tuple[float, float, int]] = []  # weight, mean, number of values
    for value, own in zip(values, weights, strict=True):
        weight, mean, count = own, value, 1
        while pools and pools[-1][1] > mean:
            before, before_mean, before_count = pools.pop()
            mean = (before * before_mean + weight * mean) / (before + weight)
            weight, count = before + weight, before_count + count
        pools.append((weight, mean, count))
    fitted = [mean for _, mean, count in pools for _ in range(count)]
    return [after - before for after, before in zip(fitted, values, strict=True)]


def _largest(known: dict[tuple[int, int], Cost]) -> Cost | None:
    """Return the cost in the rounds with the most candidates; None if no cost was measured."""
    return known[max(known)] if known else None


def _line(points: dict[int, float], place: int) -> float:
    """Interpolate linearly at ``place``; beyond the last point, return the last point's value."""
    if place in points:
        return points[place]
    left = max(each for each in points if each < place)
    right = min((each for each in points if each > place), default=None)
    if right is None:
        return points[left]
    return points[left] + (points[right] - points[left]) * (place - left) / (right - left)


def _between(points: dict[int, Cost], tokens: int) -> Cost:
    """Return the cost at ``tokens``. The error of an interpolated cost covers both neighbours."""
    if tokens in points:
        return points[tokens]
    left = max(each for each in points if each < tokens)
    right = min(each for each in points if each > tokens)
    cost = _line({left: points[left].cost, right: points[right].cost}, tokens)
    ends = abs(math.log(points[right].cost / points[left].cost))
    return Cost(cost=cost, error=math.hypot(ends, points[left].error, points[right].error))
