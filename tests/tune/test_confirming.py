"""Measuring chosen cells equally often or in a race, with runs of known speeds."""

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
    """Return a speed that depends on pair, seed and temperature."""
    name = order.spec.name
    assert name is not None
    return SPEEDS[name] * (1.0 + 0.01 * (order.config.seed % 5)) * (2 - order.config.temperature)


def race(maker: FakeMaker, *names: str, items: Sequence[SuiteItem] = ITEMS) -> RaceJob:
    return RaceJob([best_of(candidate_of(name)) for name in names], items, maker, None)


def runs_by_pair(maker: FakeMaker) -> Counter[str | None]:
    return Counter(order.spec.name for order in maker.orders)


# Equally often


def test_measures_every_cell_on_every_prompt() -> None:
    candidate, maker = candidate_of("fast"), FakeMaker(speed_of)
    found = candidate.surface
    choices = [(candidate, cell) for cell in found.cells if cell.gamma != 2]
    job = CellsJob(choices, ITEMS, maker, None, repeats=2)
    assert (job.cells, job.progress) == ((), (0, 48))
    job.carry_out()
    assert (job.state, job.error, job.progress) == ("done", None, (48, 48))
    settings = Counter((each.config.gamma, each.config.temperature) for each in maker.orders)
    assert settings == {(g, t): 12 for g in (1, 4) for t in (0.0, 0.7)}
    assert {each.config.seed for each in maker.orders} == {0, 1}
    assert all(each.baseline and not each.config.record for each in maker.orders)
    for (_, cell), measured in zip(choices, job.cells, strict=True):
        assert (measured.gamma, measured.temperature) == (cell.gamma, cell.temperature)
        assert (measured.label, measured.count, measured.expected) == ("fast", 12, cell.speedup)
        speed = 1.6 * math.sqrt(1.01) * (2 - cell.temperature)
        assert measured.speedup == pytest.approx(speed)
        assert measured.error == pytest.approx(speed / (cell.speedup or math.nan) - 1.0)
        # The mean over both seeds is the same for every prompt.
        assert measured.low == pytest.approx(speed)
        assert measured.high == pytest.approx(speed)


def test_omits_cells_without_runs() -> None:
    candidate, maker = candidate_of("fast"), FakeMaker(speed_of)
    choices = [(candidate, cell) for cell in candidate.surface.cells]
    job = CellsJob(choices, ITEMS[:2], maker, None)

    def stop_at_the_third() -> None:
        if len(maker.orders) == 2:
            job.stop()

    maker.before_run = stop_at_the_third
    job.carry_out()
    assert (job.state, job.was_stopped) == ("stopped", True)
    assert [each.count for each in job.cells] == [1, 1]


def test_run_without_a_whole_round_has_no_speedup() -> None:
    candidate = candidate_of("fast")
    job = CellsJob([best_of(candidate)], ITEMS[:2], FakeMaker(lambda _: None), None)
    job.carry_out()
    (cell,) = job.cells
    assert (job.state, cell.speedup, cell.low, cell.error, cell.count) == (
        "done", None, None, None, 2,
    )  # fmt: skip


def test_best_cells_belong_to_the_best_candidate() -> None:
    first, second = candidate_of("fast"), candidate_of("slow", gammas=(1,))
    question = Question(lanes=(first.lane, second.lane), items=ITEMS, temperatures=(0.0, 0.7))
    chosen = best_cells(answer_of(question, second, first))
    assert [(each.label, cell.temperature) for each, cell in chosen] == [
        ("fast", 0.0), ("fast", 0.7),
    ]  # fmt: skip
    assert best_cells(answer_of(question)) == ()


# A race


@pytest.mark.parametrize("names", [tuple(SPEEDS), ("slow", "middle", "fast"), ("slow", "fast")])
def test_fastest_cell_wins_and_dropped_cells_run_no_more(names: tuple[str, ...]) -> None:
    maker, many = FakeMaker(speed_of), tuple(SuiteItem(prompt=f"{n}") for n in range(40))
    job = race(maker, *names, items=many)
    job.carry_out()
    assert (job.state, job.error) == ("done", None)
    stages = stages_of(len(names), 6 * len(names))
    wanted, left = Counter[str](), list(names)
    for stage in stages:
        wanted.update(dict.fromkeys(left, stage.measurements))
        left = sorted(left, key=lambda name: -SPEEDS[name])[: math.ceil(len(left) / 2)]
    assert left == ["fast"]
    assert runs_by_pair(maker) == wanted
    assert job.progress == (wanted.total(), wanted.total())
    assert job.cells[0].label == "fast"
    assert job.cells[0].speedup == pytest.approx(1.6 * 1.3)
    assert [each.count for each in job.cells] == sorted(wanted.values(), reverse=True)


@pytest.mark.parametrize("num_items", [1, 2, 3, 4, 6, 7, 30])
@pytest.mark.parametrize("names", [tuple(SPEEDS), ("slow", "middle", "fast"), ("slow", "fast")])
def test_never_repeats_a_prompt_with_the_same_seed(num_items: int, names: tuple[str, ...]) -> None:
    maker = FakeMaker(speed_of)
    items = [SuiteItem(prompt=f"{number}") for number in range(num_items)]
    job = race(maker, *names, items=items)
    _, planned = job.progress
    job.carry_out()
    assert job.progress == (planned, planned)
    assert len(maker.orders) == planned
    runs = Counter((each.spec.name, each.prompt, each.config.seed) for each in maker.orders)
    assert set(runs.values()) == {1}
    assert job.cells[0].label == "fast"
    assert sum(each.count for each in job.cells) == planned
    # All candidates of a stage have the same prompts and seeds.
    finalists = [each.label for each in job.cells[:2]]
    one, other = ({run[1:] for run in runs if run[0] == name} for name in finalists)
    assert one == other


def test_first_stage_covers_every_kind() -> None:
    maker = FakeMaker(speed_of)
    race(maker, "slow", "fast", "middle").carry_out()
    first = [each.kind for each in maker.orders if each.spec.name == "slow"]
    assert first == ["a", "b", "a"]


def test_one_stall_does_not_decide_a_race() -> None:
    """One of ten runs of the faster lane stalls in the final, so its plain mean is lower."""
    stalled = {"at": 0}

    def speed(order: RunOrder) -> float:
        stalled["at"] += order.spec.name == "fast" and not order.warm_up
        return 0.01 if stalled["at"] == 9 and order.spec.name == "fast" else speed_of(order)

    maker = FakeMaker(speed)
    job = race(maker, *SPEEDS, items=[SuiteItem(prompt=f"{n}") for n in range(40)])
    job.carry_out()
    first, second = job.cells[:2]
    assert (first.label, second.label) == ("fast", "middle")
    assert first.speedup is not None
    assert second.speedup is not None
    assert first.speedup < second.speedup
    assert first.count == second.count == 12


def test_drops_a_lane_that_cannot_be_timed() -> None:
    maker = FakeMaker(lambda order: None if order.spec.name == "fast" else speed_of(order))
    job = race(maker, "fast", "slow", "middle")
    job.carry_out()
    assert (job.state, job.error) == ("done", None)
    assert job.cells[0].label == "middle"
    assert job.cells[-1].speedup is None


@pytest.mark.parametrize("runs", [0, 1, 7, 11])
def test_stopped_race_keeps_its_results(runs: int) -> None:
    maker = FakeMaker(speed_of)
    job = race(maker, "slow", "fast", "middle")

    def stop() -> None:
        if len(maker.orders) == runs:
            job.stop()

    maker.before_run = stop
    job.carry_out()
    assert (job.state, job.was_stopped, job.error) == ("stopped", True, None)
    assert maker.stopped
    assert sum(each.count for each in job.cells) == job.progress[0] == runs
    assert not job.going


def test_waiting_race_stops_at_once() -> None:
    job = race(FakeMaker(speed_of), "slow", "fast")
    job.stop()
    assert (job.state, job.going) == ("stopped", False)
    job.carry_out()
    assert (job.state, job.cells) == ("stopped", ())


def test_race_fails_with_the_error_of_a_run() -> None:
    def fail(order: RunOrder) -> float:
        if order.spec.name == "fast":
            raise ConfigError("No such thing.", remedy="Give another.")
        return speed_of(order)

    job = race(FakeMaker(fail), "slow", "fast")
    job.carry_out()
    assert (job.state, str(job.error)) == ("failed", "No such thing. Give another.")


def test_stores_the_runs_of_a_race(tmp_path: Path) -> None:
    library = Library(tmp_path / "runs.db")
    choices = [best_of(candidate_of(name)) for name in ("slow", "fast")]
    job = RaceJob(choices, ITEMS, FakeMaker(speed_of), library)
    job.carry_out()
    assert job.state == "done"
    assert len(library.find(Query())) == job.progress[0] == 12
