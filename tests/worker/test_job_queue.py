"""The queue of background jobs: a job that gives way is set aside, and goes on after the others."""

from __future__ import annotations

from threading import Event

from specviz.measure.background_job import Job, SetAsideError
from specviz.worker.parent.job_queue import JobQueue


class Noted(Job):
    """Notes when it works; ``gate`` holds it until the test lets it go on."""

    def __init__(self, name: str, notes: list[str], *, gives_way: bool = False) -> None:
        super().__init__(name=name, label=name)
        self.gives_way = gives_way
        self.begun, self.gate = Event(), Event()
        self._notes = notes

    @property
    def progress(self) -> tuple[int, int]:
        return 0, 1

    def _work(self) -> None:
        self._notes.append(f"{self.name} begins")
        self.begun.set()
        self.gate.wait(30)
        self._check_stop()
        if self.gives_way and self.name not in self._notes:
            self._notes.append(self.name)
            raise SetAsideError
        self._notes.append(f"{self.name} ends")


def test_a_job_that_gives_way_goes_on_after_the_others() -> None:
    notes, ended = list[str](), list[Job]()
    queue = JobQueue(on_over=ended.append)
    long, first, second = Noted("long", notes, gives_way=True), Noted("a", notes), Noted("b", notes)
    queue.start(long)
    assert long.begun.wait(10)
    queue.start(first)
    queue.start(second)
    assert [each.name for each in queue.going] == ["long", "a", "b"]
    long.gate.set()
    assert first.begun.wait(10)
    assert [each.name for each in queue.going] == ["a", "long", "b"]
    first.gate.set()
    second.gate.set()
    assert long.wait(10)
    assert notes == ["long begins", "long", "a begins", "a ends", "b begins", "b ends",
                     "long begins", "long ends"]  # fmt: skip
    for _ in range(100):
        if len(ended) == 3:
            break
        Event().wait(0.02)
    assert [each.name for each in ended] == ["a", "b", "long"]


def test_a_job_that_is_stopped_while_set_aside_does_not_go_on() -> None:
    notes = list[str]()
    queue = JobQueue()
    long, other = Noted("long", notes, gives_way=True), Noted("a", notes)
    queue.start(long)
    assert long.begun.wait(10)
    queue.start(other)
    long.gate.set()
    assert other.begun.wait(10)
    long.stop()
    other.gate.set()
    assert other.wait(10)
    assert (long.state, queue.going) == ("stopped", ())
    assert notes == ["long begins", "long", "a begins", "a ends"]
