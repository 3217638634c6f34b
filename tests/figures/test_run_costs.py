"""Step costs fitted to timed runs, on simulated slices with known costs."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median

import pytest

from specviz.figures.metrics import metrics
from specviz.figures.run_costs import costs_of_run, fitted_costs
from specviz.figures.step_cost_warnings import step_cost_warning
from specviz.figures.step_times import covers_gamma, step_times
from specviz.record.step_costs import PhaseCost, RunCosts, StepCosts
from specviz.record.trace import Baseline, Conditions, PhaseTimes, RunConfig, Slice, Trace
from tests.traces import make_costs, make_trace

STEP = 0.01  # seconds of a plain step
GAMMA = 3


@dataclass(frozen=True)
class Machine:
    """The costs of phases in plain steps. Time runs slower by the random factor of a slice."""

    first: float = 0.1
    first_of_two: float = 0.14
    later: float = 0.08
    verify: float = 1.3
    other: float = 0.02
    noise: float = 0.01  # of each phase of a slice
    busy: float = 0.3  # of whole slices

    def timed(self, seed: int, *, slices: int = 24, gamma: int = GAMMA) -> Trace:
        """Return a run with timed slices of two rounds, the second after a bonus."""
        chance = random.Random(seed)
        rounds = ["a" * gamma] * (2 * slices)
        trace = make_trace(rounds, config=RunConfig(gamma=gamma))
        return replace(
            trace,
            baseline=Baseline(
                slices=tuple(self._slice(2 * place, gamma, chance) for place in range(slices)),
                prefill=0.02,
            ),
        )

    def _slice(self, first: int, gamma: int, chance: random.Random) -> Slice:
        busy = STEP * math.exp(chance.gauss(0, self.busy))
        phases = tuple(
            PhaseTimes(
                candidates=gamma,
                fed=fed,
                rounds=1,
                draft=busy * self._noisy(begin + (gamma - 1) * self.later, chance),
                verify=busy * self._noisy(self.verify, chance),
                other=busy * self._noisy(self.other, chance),
            )
            for fed, begin in ((1, self.first), (2, self.first_of_two))
        )
        tokens = 2 * (gamma + 1)
        both = math.fsum(each.draft + each.verify + each.other for each in phases)
        return Slice(
            first=first,
            last=first + 2,
            target=(busy * tokens, busy * tokens),
            speculative=(both, both),
            phases=phases,
        )

    def _noisy(self, cost: float, chance: random.Random) -> float:
        return cost * math.exp(chance.gauss(0, self.noise))


def costs_of(trace: Trace, process: str = "one") -> RunCosts:
    found = costs_of_run(trace.baseline, trace.rounds, created="now", process=process)
    assert found is not None
    return found


def fitted(*runs: RunCosts, table: StepCosts | None = None) -> StepCosts:
    made = fitted_costs(runs, table)
    assert made is not None
    return made


def test_a_busy_machine_does_not_change_the_costs_of_a_run() -> None:
    machine = Machine()
    found = {(each.phase, each.fed): each for each in costs_of(machine.timed(1)).phases}
    expected = {
        ("draft", 1): machine.first + 2 * machine.later,
        ("draft", 2): machine.first_of_two + 2 * machine.later,
        ("verify", 0): machine.verify,
        ("other", 0): machine.other,
    }
    assert found.keys() == expected.keys()
    for kind, cost in expected.items():
        assert abs(math.log(found[kind].cost / cost)) < max(0.015, 2 * found[kind].error)
        assert found[kind].error < 0.02


def test_a_run_without_enough_timed_phases_has_no_costs() -> None:
    trace = Machine().timed(1, slices=1)
    assert costs_of_run(trace.baseline, trace.rounds, created="now", process="one") is None
    bare = make_trace()
    assert costs_of_run(bare.baseline, bare.rounds, created="now", process="one") is None


def test_costs_fitted_to_a_run_give_its_own_speedup() -> None:
    trace = Machine(noise=0.0).timed(1)
    explained = metrics(replace(trace, step_costs=fitted(costs_of(trace))), intervals=False)
    assert explained.c is not None
    assert explained.speedup_accounted == pytest.approx(explained.speedup_observed, rel=0.02)


@pytest.mark.thorough
def test_the_interval_covers_a_new_process() -> None:
    """Processes differ by 2 %; the interval of two to six of them covers the next one's costs."""
    chance, inside, widths = random.Random(5), 0, list[float]()
    tries = 300
    for place in range(tries):
        known = 2 + place % 5
        machines = [Machine(verify=1.3 * math.exp(chance.gauss(0, 0.02))) for _ in range(known + 1)]
        runs = [
            costs_of(machine.timed(1000 * place + index), process=str(index))
            for index, machine in enumerate(machines)
        ]
        times = step_times(fitted(*runs[:-1]), 64, GAMMA, drafts=True)
        assert times.v is not None
        assert times.v_error is not None
        (actual,) = (each.cost for each in runs[-1].phases if each.phase == "verify")
        inside += abs(math.log(actual / times.v)) < times.v_error
        widths.append(times.v_error)
    assert 0.88 < inside / tries < 0.99
    assert 0.03 < median(widths) < 0.08


def test_a_disturbed_run_widens_but_does_not_shift() -> None:
    calm = [costs_of(Machine().timed(seed), process=str(seed)) for seed in range(3)]
    wild = costs_of(Machine(verify=2.6, noise=1.0).timed(9), process="wild")
    alone = step_times(fitted(*calm), 64, GAMMA, drafts=True)
    beside = step_times(fitted(*calm, wild), 64, GAMMA, drafts=True)
    assert alone.v is not None
    assert beside.v == pytest.approx(alone.v, rel=0.02)


def test_one_process_in_another_state_does_not_shift_the_middle() -> None:
    """It is timed as precisely as the others, but its verification takes much longer."""
    usual = [costs_of(Machine().timed(seed), process=str(seed)) for seed in range(4)]
    other = costs_of(Machine(verify=2.6).timed(9), process="other")
    found = step_times(fitted(*usual, other), 64, GAMMA, drafts=True)
    assert found.v == pytest.approx(1.3, rel=0.02)


def test_rows_that_no_run_covered_come_from_the_scaled_table() -> None:
    table, machine = make_costs(), Machine(verify=1.5, noise=0.0, busy=0.0)
    made = fitted(costs_of(machine.timed(1)), table=table)
    context = made.contexts[0]

    def ratio(costs: StepCosts, tokens: int) -> float:
        return costs.verify(context, tokens) / costs.target_step(context)

    assert ratio(made, GAMMA + 1) == pytest.approx(machine.verify)
    factor = machine.verify / ratio(table, GAMMA + 1)
    for tokens in range(GAMMA + 2, 18):
        assert ratio(made, tokens) == pytest.approx(factor * ratio(table, tokens))
        assert made.target_errors[tokens - 1] > made.target_errors[GAMMA]
    assert made.table
    phase = made.draft_phase(context, GAMMA) / made.target_step(context)
    assert phase == pytest.approx(machine.first + 2 * machine.later)


def test_runs_continue_a_table_with_longer_verifications() -> None:
    table, gamma = make_costs(), 20
    machine = Machine(verify=4.0, noise=0.0, busy=0.0)
    made = fitted(costs_of(machine.timed(1, gamma=gamma)), table=table)
    context, last = made.contexts[0], len(table.target)
    step = made.target_step(context)
    assert len(made.target) == gamma + 1
    assert made.verify(context, gamma + 1) / step == pytest.approx(machine.verify)
    assert made.target[last - 1][0] < made.target[last][0] < made.target[gamma][0]
    assert made.interpolated[-3:] == (18, 19, 20)
    assert covers_gamma(made, gamma)
    with_table = step_times(made, context, gamma, drafts=True)
    assert with_table.v == pytest.approx(machine.verify)


@pytest.mark.parametrize("table", [None, make_costs()])
def test_a_verification_does_not_cost_less_than_one_of_fewer_tokens(
    table: StepCosts | None,
) -> None:
    machines = {gamma: Machine(verify=1.7 - gamma / 10, noise=0.0) for gamma in (2, 5)}
    runs = [costs_of(each.timed(1, gamma=gamma)) for gamma, each in machines.items()]
    made = fitted(*runs, table=table)
    context = made.contexts[0]
    step = made.target_step(context)
    costs = [round(made.verify(context, tokens) / step, 9) for tokens in range(3, 7)]
    assert costs == sorted(costs)
    assert 1.2 < costs[0] <= costs[-1] < 1.5
    for tokens, verify in ((3, 1.5), (6, 1.2)):
        moved = abs(math.log(made.verify(context, tokens) / step / verify))
        assert made.target_errors[tokens - 1] >= moved > 0.02


def test_no_context_has_a_verification_that_costs_less_than_one_of_fewer_tokens() -> None:
    table = make_costs()
    uneven = [list(row) for row in table.target]
    uneven[8][-1] *= 0.7  # in one place
    table = replace(table, target=tuple(map(tuple, uneven)))
    made = fitted(costs_of(Machine().timed(1)), table=table)
    for column in zip(*made.target[1:], strict=True):
        assert all(one <= other * (1 + 1e-9) for one, other in pairwise(column))
    assert made.target[8][0] / made.target[7][0] == pytest.approx(uneven[8][0] / uneven[7][0])


def test_without_a_table_only_the_rows_of_the_runs_are_known() -> None:
    machines = {gamma: Machine(verify=1 + gamma / 10, noise=0.0) for gamma in (2, 5)}
    made = fitted(*(costs_of(each.timed(1, gamma=gamma)) for gamma, each in machines.items()))
    assert made.interpolated == (2, 4, 5)
    assert [covers_gamma(made, gamma) for gamma in (2, 4, 5, 6, 16)] == [True] * 3 + [False] * 2
    known, between = made.target_errors[5], made.target_errors[3]
    assert between > known + 0.1  # costs rise between their neighbours, but where is not known
    first, later, step = made.draft_step(60), made.draft_next[0], made.target_step(60)
    assert (first / step, later / step) == pytest.approx((0.1, 0.08), rel=0.05)


@pytest.mark.parametrize("table", [None, make_costs()])
def test_rounds_without_candidates_add_nothing_to_the_draft_steps(table: StepCosts | None) -> None:
    run = costs_of(Machine().timed(1))
    empty = [replace(each, candidates=0, cost=1e-5) for each in run.phases if each.fed == 1]
    assert empty
    with_empty = fitted(replace(run, phases=(*empty, *run.phases)), table=table)
    assert with_empty.draft == fitted(run, table=table).draft
    only_empty = fitted(replace(run, phases=tuple(empty)), table=table)
    assert bool(only_empty.draft) == (table is not None)


def test_a_tree_has_the_costs_of_its_whole_rounds() -> None:
    found = costs_of(Machine(noise=0.0, busy=0.0).timed(1))
    made = fitted_costs([found], None, RunConfig(gamma=2, dynamic_tree=(2, 3)))
    assert made is not None
    assert made.shape is not None
    assert (made.shape.shape, made.shape.dynamic) == ((1, 1), (2, 3))
    assert made.shape.verify[0] == pytest.approx(1.3 * STEP)


def test_runs_beside_other_processes_make_costs_noisy() -> None:
    """The median run decides; a run that does not know, and a measured table, do not count."""
    runs = [costs_of(Machine().timed(seed), process=str(seed)) for seed in (1, 2, 3)]
    first, second, third = runs
    assert first.others is None
    assert not fitted(first, second).noisy
    busy = [replace(each, others=share) for each, share in ((second, 0.5), (third, 0.4))]
    made = fitted(first, *busy)
    assert (made.others, made.noisy) == (0.45, True)
    assert "45.0 %" in (step_cost_warning(made) or "")
    calm = fitted(replace(first, others=0.02), replace(second, others=0.03), busy[1])
    assert (calm.others, calm.noisy) == (0.03, False)
    assert step_cost_warning(calm) is None


def test_the_search_of_a_drafter_without_steps_is_overhead() -> None:
    runs = [costs_of(Machine().timed(seed), process=str(seed)) for seed in (1, 2, 3)]
    drafts, searches = fitted(*runs), fitted_costs(runs, None, searches=True)
    assert searches is not None
    assert not searches.draft
    phases = [each for run in runs for each in run.phases if each.phase == "draft"]
    assert len({each.candidates for each in phases}) == 1
    gamma, step = phases[0].candidates, drafts.target_step(1)
    search = (searches.overhead_of(gamma) - drafts.overhead_of(gamma)) / step
    assert search == pytest.approx(fmean(each.cost for each in phases), rel=0.05)


def test_a_run_keeps_how_busy_the_machine_was() -> None:
    trace = Machine().timed(1)
    assert trace.baseline is not None
    seen = replace(trace.baseline, conditions=Conditions(others=0.3))
    found = costs_of_run(seen, trace.rounds, created="now", process="one")
    assert found is not None
    assert found.others == 0.3


def test_costs_of_a_calm_machine_are_less_certain_for_a_run_on_a_busy_one() -> None:
    runs = [
        replace(costs_of(Machine().timed(seed), process=str(seed)), others=0.05) for seed in (1, 2)
    ]
    trace = replace(Machine().timed(3), step_costs=fitted(*runs))
    timing = trace.baseline
    assert timing is not None

    def error(others: float | None) -> float:
        baseline = replace(timing, conditions=Conditions(others=others))
        found = metrics(replace(trace, baseline=baseline), intervals=False).round_cost_error
        assert found is not None
        return found

    assert error(None) == error(0.05)
    assert error(0.75) == pytest.approx(math.hypot(error(0.05), 1.96 * 0.2 * 0.7), rel=0.01)


def test_a_rare_kind_of_draft_phase_does_not_decide_the_error_of_all() -> None:
    """Few rounds of a run may feed two tokens first; they give only the cost of such a step."""
    machine = Machine()
    runs = [costs_of(machine.timed(seed), process=str(seed)) for seed in range(4)]
    usual = step_times(fitted(*runs), 64, GAMMA, drafts=True).draft_error
    rare = PhaseCost(phase="draft", candidates=GAMMA, fed=2, cost=0.5, error=3.0)
    others = [[each for each in run.phases if each.fed != 2] for run in runs]
    few = [replace(run, phases=(*phases, rare)) for run, phases in zip(runs, others, strict=True)]
    made = fitted(*few)
    assert step_times(made, 64, GAMMA, drafts=True).draft_error == usual
    assert made.draft_errors[1] > 1


def test_drafting_is_less_certain_if_it_is_short_beside_a_target_step() -> None:
    def error(first: float, later: float) -> float | None:
        machine = Machine(first=first, later=later)
        runs = [costs_of(machine.timed(seed), process=str(seed)) for seed in range(4)]
        return step_times(fitted(*runs), 64, GAMMA, drafts=True).draft_error

    short, long = error(0.02, 0.01), error(0.6, 0.5)
    assert short is not None
    assert long is not None
    assert short > 2 * long
