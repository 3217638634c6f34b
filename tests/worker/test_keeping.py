"""``on_over`` is called once for every run that ends, and cannot disturb the worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.worker.parent.client import Run, Worker
from tests.worker.waiting import wait_until

PROMPT = "Once upon a time"
CONFIG = RunConfig(gamma=3, max_new_tokens=16)


class Listener:
    """Records each run, its state, and that no lock was held during the call."""

    def __init__(self) -> None:
        self.worker = Worker(on_over=self)
        self.reported: list[tuple[str, str, bool]] = []
        self.fails = False

    def __call__(self, run: Run) -> None:
        free: list[bool] = []
        other = threading.Thread(target=lambda: free.append(self.worker.busy is not None))
        other.start()
        other.join(30)
        self.reported.append((run.id, run.state, bool(free)))
        if self.fails:
            raise RuntimeError("this listener is broken")


@pytest.fixture(scope="module")
def shared_listener() -> Iterator[Listener]:
    """One process for all tests."""
    listener = Listener()
    yield listener
    listener.worker.close()


@pytest.fixture
def listener(shared_listener: Listener) -> Iterator[Listener]:
    shared_listener.reported.clear()
    shared_listener.fails = False
    yield shared_listener
    shared_listener.worker.release("a", grace=0.0)
    wait_until(lambda: not shared_listener.worker.busy)


@pytest.fixture
def listened(listener: Listener) -> Worker:
    return listener.worker


def test_on_over_is_called_once_per_run(
    listened: Worker, listener: Listener, spec: PairSpec
) -> None:
    done = listened.submit("a", spec, PROMPT, CONFIG, baseline=False)
    wait_until(lambda: len(listener.reported) == 1)
    stopped = listened.submit("a", spec, PROMPT, replace(CONFIG, max_new_tokens=400))
    wait_until(lambda: len(stopped.rounds) > 2)
    stopped.stop()
    wait_until(lambda: len(listener.reported) == 2)
    warming = listened.submit("b", spec, PROMPT, CONFIG, baseline=False, kept=False)
    wait_until(lambda: warming.finished)
    never = listened.submit("a", spec, PROMPT, replace(CONFIG, max_new_tokens=400))
    waiting = listened.submit("b", spec, PROMPT, CONFIG)
    waiting.stop()  # before its first round, so it has no trace
    never.stop()
    failed = listened.submit("a", spec, "word " * 3000, CONFIG)
    wait_until(lambda: failed.finished and not listened.busy)
    reported = [each for each in listener.reported if each[0] != never.id]
    assert reported == [(done.id, "done", True), (stopped.id, "stopped", True)]
    assert failed.state == "failed"


def test_failing_listener_does_not_disturb_the_worker(
    listened: Worker, listener: Listener, spec: PairSpec
) -> None:
    listener.fails = True
    for _ in range(2):
        run = listened.submit("a", spec, PROMPT, CONFIG, baseline=False)
        wait_until(lambda run=run: run.finished)
        assert run.state == "done"
    wait_until(lambda: len(listener.reported) == 2)


def test_on_over_is_called_for_runs_ended_by_close(
    listened: Worker, listener: Listener, spec: PairSpec
) -> None:
    run = listened.submit("a", spec, PROMPT, replace(CONFIG, max_new_tokens=400))
    wait_until(lambda: len(run.rounds) > 2)
    listened.close()
    assert [each[:2] for each in listener.reported] == [(run.id, "stopped")]
