"""Measuring chosen cells: all alike, or in a race; with runs whose speeds are known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from specviz.errors import ConfigError
from specviz.measure.run_makers import RunOrder
from specviz.record.prompts import SuiteItem
from specviz.store import Library, Query
from specviz.tune.confirming import CellsJob, RaceJob
from specviz.tune.halving import stages_of
from specviz.tune.measuring import best_cells
from specviz.tune.question import Question
from tests.tune.fakes import FakeMaker, answer_of, best_of, candidate_of

ITEMS = tuple(SuiteItem(prompt=f"{kind} {n}", kind=kind) for kind in "ab" for n in range(3))
SPEEDS = {"slow": 0.8, "fast": 1.6, "middle": 1.2, "other": 1.1, "fifth": 1.0, "last": 0.5}


def speed_of(order: RunOrder) -> float:
    """Of the pair, a little faster with every seed and at temperature 0."""
    name = order.spec.name
    assert name is not None
    return SPEEDS[name] * (1.0 + 0.01 * (order.config.seed % 5)) * (2 - order.config.temperature)


def race(maker: FakeMaker, *names: str, items: Sequence[SuiteItem] = ITEMS) -> RaceJob:
    return RaceJob([best_of(candidate_of(name)) for name in names], items, maker, None)


def runs_by_pair(maker: FakeMaker) -> Counter[str | None]:
    return Counter(order.spec.name for order in maker.orders)


# All alike


def test_every_cell_is_measured_on_every_prompt_beside_what_was_expected() -> None:
    candidate, maker = candidate_of("fast"), FakeMaker(speed_of)
    found = candidate.surface
    choices = [(candidate, cell) for cell in found.cells if cell.gamma != 2]
    work = CellsJob(choices, ITEMS, maker, None, repeats=2)
    assert (work.cells, work.progress) == ((), (0, 48))
    work.carry_out()
    assert (work.state, work.error, work.progress) == ("done", None, (48, 48))
    settings = Counter((each.config.gamma, each.config.temperature) for each in maker.orders)
    assert settings == {(g, t): 12 for g in (1, 4) for t in (0.0, 0.7)}
    assert {each.config.seed for each in maker.orders} == {0, 1}
    assert all(each.baseline and not each.config.record for each in maker.orders)
    for (_, cell), measured in zip(choices, work.cells, strict=True):
        assert (measured.gamma, measured.temperature) == (cell.gamma, cell.temperature)
        assert (measured.label, measured.count, measured.expected) == ("fast", 12, cell.speedup)
        speed = 1.6 * math.sqrt(1.01) * (2 - cell.temperature)
        assert measured.speedup == pytest.approx(speed)
        assert measured.error == pytest.approx(speed / (cell.speedup or math.nan) - 1.0)
        # Every prompt has the same mean of its two seeds.
        assert measured.low == pytest.approx(speed)
        assert measured.high == pytest.approx(speed)


def test_a_cell_that_was_not_run_yet_is_left_out() -> None:
    candidate, maker = candidate_of("fast"), FakeMaker(speed_of)
    choices = [(candidate, cell) for cell in candidate.surface.cells]
    work = CellsJob(choices, ITEMS[:2], maker, None)

    def stop_at_the_third() -> None:
        if len(maker.orders) == 2:
            work.stop()

    maker.before_run = stop_at_the_third
    work.carry_out()
    assert (work.state, work.was_stopped) == ("stopped", True)
    assert [each.count for each in work.cells] == [1, 1]


def test_a_run_without_a_whole_round_has_no_speedup_and_ends_nothing() -> None:
    candidate = candidate_of("fast")
    work = CellsJob([best_of(candidate)], ITEMS[:2], FakeMaker(lambda _: None), None)
    work.carry_out()
    (cell,) = work.cells
    assert (work.state, cell.speedup, cell.low, cell.error, cell.count) == (
        "done", None, None, None, 2,
    )  # fmt: skip


def test_the_best_of_every_temperature_is_of_the_candidate_ranked_first() -> None:
    first, second = candidate_of("fast"), candidate_of("slow", gammas=(1,))
    question = Question(lanes=(first.lane, second.lane), items=ITEMS, temperatures=(0.0, 0.7))
    chosen = best_cells(answer_of(question, second, first))
    assert [(each.label, cell.temperature) for each, cell in chosen] == [
        ("fast", 0.0), ("fast", 0.7),
    ]  # fmt: skip
    assert best_cells(answer_of(question)) == ()


# A race


@pytest.mark.parametrize("names", [tuple(SPEEDS), ("slow", "middle", "fast"), ("slow", "fast")])
def test_the_fastest_wins_and_who_drops_out_is_run_no_more(names: tuple[str, ...]) -> None:
    maker, many = FakeMaker(speed_of), tuple(SuiteItem(prompt=f"{n}") for n in range(40))
    work = race(maker, *names, items=many)
    work.carry_out()
    assert (work.state, work.error) == ("done", None)
    stages = stages_of(len(names), 6 * len(names))
    wanted, left = Counter[str](), list(names)
    for stage in stages:
        wanted.update(dict.fromkeys(left, stage.measurements))
        left = sorted(left, key=lambda name: -SPEEDS[name])[: math.ceil(len(left) / 2)]
    assert left == ["fast"]
    assert runs_by_pair(maker) == wanted
    assert work.progress == (wanted.total(), wanted.total())
    assert work.cells[0].label == "fast"
    assert work.cells[0].speedup == pytest.approx(1.6 * 1.3)
    assert [each.count for each in work.cells] == sorted(wanted.values(), reverse=True)


@pytest.mark.parametrize("num_items", [1, 2, 3, 4, 6, 7, 30])
@pytest.mark.parametrize("names", [tuple(SPEEDS), ("slow", "middle", "fast"), ("slow", "fast")])
def test_no_prompt_is_run_twice_with_one_seed_and_all_of_it_was_planned(
    num_items: int, names: tuple[str, ...]
) -> None:
    maker = FakeMaker(speed_of)
    items = [SuiteItem(prompt=f"{number}") for number in range(num_items)]
    work = race(maker, *names, items=items)
    _, planned = work.progress
    work.carry_out()
    assert work.progress == (planned, planned)
    assert len(maker.orders) == planned
    runs = Counter((each.spec.name, each.prompt, each.config.seed) for each in maker.orders)
    assert set(runs.values()) == {1}
    assert work.cells[0].label == "fast"
    assert sum(each.count for each in work.cells) == planned
    # In a stage everybody has the same prompts and seeds.
    finalists = [each.label for each in work.cells[:2]]
    one, other = ({run[1:] for run in runs if run[0] == name} for name in finalists)
    assert one == other


def test_the_first_stage_has_prompts_of_every_kind() -> None:
    maker = FakeMaker(speed_of)
    race(maker, "slow", "fast", "middle").carry_out()
    first = [each.kind for each in maker.orders if each.spec.name == "slow"]
    assert first == ["a", "b", "a"]


def test_stalls_do_not_lose_a_race_and_the_winner_is_told_first() -> None:
    """In the final, of ten runs, one of the faster lane's stands still: its mean is lower."""
    stalled = {"at": 0}

    def speed(order: RunOrder) -> float:
        stalled["at"] += order.spec.name == "fast" and not order.warm_up
        return 0.01 if stalled["at"] == 9 and order.spec.name == "fast" else speed_of(order)

    maker = FakeMaker(speed)
    work = race(maker, *SPEEDS, items=[SuiteItem(prompt=f"{n}") for n in range(40)])
    work.carry_out()
    first, second = work.cells[:2]
    assert (first.label, second.label) == ("fast", "middle")
    assert first.speedup is not None
    assert second.speedup is not None
    assert first.speedup < second.speedup
    assert first.count == second.count == 12


def test_a_lane_that_cannot_be_timed_drops_out() -> None:
    maker = FakeMaker(lambda order: None if order.spec.name == "fast" else speed_of(order))
    work = race(maker, "fast", "slow", "middle")
    work.carry_out()
    assert (work.state, work.error) == ("done", None)
    assert work.cells[0].label == "middle"
    assert work.cells[-1].speedup is None


@pytest.mark.parametrize("runs", [0, 1, 7, 11])
def test_a_race_that_is_stopped_keeps_what_it_has(runs: int) -> None:
    maker = FakeMaker(speed_of)
    work = race(maker, "slow", "fast", "middle")

    def stop() -> None:
        if len(maker.orders) == runs:
            work.stop()

    maker.before_run = stop
    work.carry_out()
    assert (work.state, work.was_stopped, work.error) == ("stopped", True, None)
    assert maker.stopped
    assert sum(each.count for each in work.cells) == work.progress[0] == runs
    assert not work.going


def test_a_race_that_waits_is_stopped_at_once() -> None:
    work = race(FakeMaker(speed_of), "slow", "fast")
    work.stop()
    assert (work.state, work.going) == ("stopped", False)
    work.carry_out()
    assert (work.state, work.cells) == ("stopped", ())


def test_what_goes_wrong_ends_it_with_its_error() -> None:
    def fail(order: RunOrder) -> float:
        if order.spec.name == "fast":
            raise ConfigError("No such thing.", remedy="Give another.")
        return speed_of(order)

    work = race(FakeMaker(fail), "slow", "fast")
    work.carry_out()
    assert (work.state, str(work.error)) == ("failed", "No such thing. Give another.")


def test_the_runs_of_a_race_are_kept(tmp_path: Path) -> None:
    library = Library(tmp_path / "runs.db")
    choices = [best_of(candidate_of(name)) for name in ("slow", "fast")]
    work = RaceJob(choices, ITEMS, FakeMaker(speed_of), library)
    work.carry_out()
    assert work.state == "done"
    assert len(library.find(Query())) == work.progress[0] == 12
