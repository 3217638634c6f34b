"""Background jobs with given makers and parts: stops, status lines, the time left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import pytest

from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.plan import Lane, Plan, SuiteItem
from specviz.errors import ServerError
from specviz.measure.background_job import Job, RunsJob
from specviz.measure.run_makers import Block, MadeRun, RunOrder
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from tests.tune.fakes import FakeMaker

PLAN = Plan(
    lanes=tuple(Lane(spec=PairSpec(), config=RunConfig(gamma=gamma)) for gamma in (2, 4)),
    items=(SuiteItem(prompt="Once"),),
    repeats=2,
)


class Part:
    def __init__(self) -> None:
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1


class PartsJob(Job):
    """Begins two parts; a stop comes ``after`` so many."""

    def __init__(self, after: int, *, failing: bool = False) -> None:
        super().__init__(name="parts", label="Parts")
        self.parts, self._after, self._failing = (Part(), Part()), after, failing

    def _work(self) -> None:
        with self._stopped_instead_of(ServerError):
            for number, part in enumerate(self.parts):
                if number == self._after:
                    self.stop()
                self._step = f"part {number}"
                self._begin(part)
            if self._after == len(self.parts):
                self.stop()
            if self._failing:
                raise ServerError("It hung up.", remedy="Ask again.")


@pytest.mark.parametrize(("after", "stops"), [(0, (1, 0)), (1, (1, 1))])
def test_a_stop_reaches_parts_that_began_before_and_after(
    after: int, stops: tuple[int, int]
) -> None:
    job = PartsJob(after)
    assert job.doing == "waiting for its turn"
    job.carry_out()
    assert (job.state, job.was_stopped, job.error) == ("stopped", True, None)
    assert tuple(part.stops for part in job.parts) == stops
    assert job.doing == f"part {after}"


@pytest.mark.parametrize(("after", "state"), [(2, "stopped"), (3, "failed")])
def test_a_failure_that_a_stop_caused_is_a_stop(after: int, state: str) -> None:
    job = PartsJob(after, failing=True)
    job.carry_out()
    assert job.state == state
    assert (job.error is None) == (state == "stopped")


class NeverLooks(Job):
    """Counts how often it works; it never checks for a stop and has no parts."""

    worked = 0

    def _work(self) -> None:
        self.worked += 1


def test_a_job_stopped_while_it_waits_never_works() -> None:
    job = NeverLooks(name="waits", label="Waits")
    job.stop()
    assert (job.state, job.going) == ("stopped", False)
    job.carry_out()  # a queue may have taken the job just before the stop
    assert (job.state, job.was_stopped, job.worked) == ("stopped", True, 0)


def test_a_job_stopped_between_its_runs_is_not_done() -> None:
    orders = [
        RunOrder(label=f"run {place}", spec=PairSpec(), prompt="Once", config=RunConfig())
        for place in range(3)
    ]
    maker, concluded = FakeMaker(lambda _: 1.5), list[object]()
    job = RunsJob(orders, maker, name="runs", label="Runs", conclude=concluded.append)
    maker.stop = lambda: None  # the maker does not notice; the job does
    maker.before_run = lambda: job.stop() if job.progress[0] == 1 else None
    job.carry_out()
    assert (job.state, job.was_stopped, job.error) == ("stopped", True, None)
    assert (job.progress, concluded, job.going) == ((2, 3), [], False)


class BlocksMaker(FakeMaker):
    """Makes the last block first."""

    doing = "on 2 devices"

    def make_blocks(self, blocks: Sequence[Block]) -> Iterator[tuple[int, tuple[MadeRun, ...]]]:
        for place in reversed(range(len(blocks))):
            yield place, tuple(self.make(run.order) for run in blocks[place].runs)


@pytest.mark.parametrize("kind", [FakeMaker, BlocksMaker])
def test_the_time_left_is_estimated_from_the_runs_so_far(
    kind: type[FakeMaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    fake_time = SimpleNamespace(monotonic=lambda: clock[0])
    monkeypatch.setattr("specviz.measure.background_job.time", fake_time)

    def speed(order: RunOrder) -> float:
        clock[0] += 100.0 if order.warm_up else 3.0
        return 1.5

    maker = kind(speed)
    job = ComparisonJob(PLAN, maker, None)
    job.prepare()
    assert (job.seconds_left, job.doing) == (None, maker.doing or "starting")
    runs = job.make_missing()
    first = next(runs)
    made = job.progress[0]
    assert job.seconds_left == 3.0 * (4 - made)
    in_blocks = isinstance(maker, BlocksMaker)
    assert (made, first.job.repeat, maker.warm_ups) == ((2, 1, 0) if in_blocks else (1, 0, 1))
    assert job.doing == ("on 2 devices" if in_blocks else "γ 2, repeat 1 of 2")
    assert len(list(runs)) == 3
    assert (job.seconds_left, job.progress) == (0.0, (4, 4))
    assert maker.warm_ups == (0 if in_blocks else 2)
