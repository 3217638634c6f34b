"""Several sessions on one device: first come, first served; closed tabs leave the queue."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from specviz.engine import speculate
from specviz.engine.model.pair import Pair
from specviz.record.forks import Fork
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.worker.parent.client import Worker
from tests.worker.waiting import finish, wait_for_rounds, wait_until

pytestmark = pytest.mark.timeout(180)

PROMPT = "Once there was a small boat that"
SHORT = RunConfig(gamma=4, max_new_tokens=32, ignore_eos=True)
LONG = replace(SHORT, max_new_tokens=1000)
LONGEST = replace(SHORT, max_new_tokens=1900)


def test_second_session_waits_for_its_turn(worker: Worker, spec: PairSpec) -> None:
    first = worker.submit("a", spec, PROMPT, LONG)
    wait_for_rounds(first, 1)
    second = worker.submit("b", spec, PROMPT, LONG)
    third = worker.submit("c", spec, PROMPT, SHORT)
    assert [(run.state, run.place) for run in (first, second, third)] == [
        ("running", 0),
        ("queued", 1),
        ("queued", 2),
    ]
    first.stop()
    wait_for_rounds(second, 1)
    assert (second.place, third.state, third.place) == (0, "queued", 1)
    second.stop()
    assert finish(third).state == "done"
    assert (first.state, second.state) == ("stopped", "stopped")
    assert third.rounds


def test_stopped_waiting_run_never_starts(worker: Worker, spec: PairSpec) -> None:
    first = worker.submit("a", spec, PROMPT, LONG)
    wait_for_rounds(first, 1)
    second, third = (worker.submit(name, spec, PROMPT, SHORT) for name in ("b", "c"))
    second.stop()
    assert (second.state, second.trace, third.place) == ("stopped", None, 1)
    first.stop()
    assert finish(third).state == "done"
    assert (second.rounds, second.prompt) == ([], None)


def test_session_has_one_run(worker: Worker, spec: PairSpec) -> None:
    first = worker.submit("a", spec, PROMPT, LONG)
    wait_for_rounds(first, 2)
    second = worker.submit("a", spec, PROMPT, SHORT)
    assert finish(second).state == "done"
    assert first.state == "stopped"
    assert first.trace is not None
    assert len(first.trace.rounds) == len(first.rounds) >= 2


def test_a_run_that_is_forked_or_stopped_is_not_superseded(worker: Worker, spec: PairSpec) -> None:
    first = worker.submit("a", spec, PROMPT, LONG)
    wait_for_rounds(first, 1)
    fork = Fork(round=0, place=0, token_id=0, uniform=0.5, of=first.id)
    second = worker.submit("a", spec, PROMPT, replace(LONG, forks=(fork,)))
    third = worker.submit("a", spec, PROMPT, LONG)
    third.stop()
    finish(worker.submit("a", spec, PROMPT, SHORT))
    assert [each.superseded for each in (first, second, third)] == [False, True, False]


def test_only_the_last_of_five_quick_runs_completes(
    worker: Worker, spec: PairSpec, pair: Pair
) -> None:
    settings = [replace(LONG, gamma=gamma) for gamma in (2, 8, 3, 1)]
    settings.append(replace(SHORT, gamma=6, max_new_tokens=200))
    runs = []
    for config in settings:
        runs.append(worker.submit("a", spec, PROMPT, config, baseline=False))
        if len(runs) == 1:
            wait_for_rounds(runs[0], 1)
        else:
            time.sleep(0.15)
    finish(runs[-1])
    assert [run.state for run in runs] == ["stopped"] * 4 + ["done"]
    undisturbed = speculate(pair, PROMPT, settings[-1])
    assert [entry.emitted for entry in undisturbed] == [each.emitted for each in runs[-1].rounds]
    assert runs[-1].trace is not None
    assert runs[-1].trace.text == undisturbed.text
    assert runs[0].rounds


def test_closed_tab_frees_the_device_after_the_grace(worker: Worker, spec: PairSpec) -> None:
    first = worker.submit("a", spec, PROMPT, LONGEST)
    wait_for_rounds(first, 1)
    second = worker.submit("b", spec, PROMPT, LONG)
    third = worker.submit("c", spec, PROMPT, SHORT)
    worker.release("b", grace=0.4)
    worker.release("a", grace=0.8)
    assert (first.state, second.state) == ("running", "queued")
    assert wait_until(lambda: first.finished) > 0.4
    assert (first.state, second.state, second.rounds) == ("stopped", "stopped", [])
    assert finish(third).state == "done"


def test_returning_tab_keeps_its_run(worker: Worker, spec: PairSpec) -> None:
    run = worker.submit("a", spec, PROMPT, LONGEST)
    wait_for_rounds(run, 1)
    worker.release("a", grace=0.4)
    worker.cancel_release("a")
    time.sleep(0.6)
    assert run.state == "running"


def test_run_submitted_as_the_grace_ends_continues(worker: Worker, spec: PairSpec) -> None:
    with worker._lock:
        worker.release("a", grace=0.0)
        timer = worker._releases["a"]
        time.sleep(0.1)  # the grace is over, and its timer waits for the lock
        run = worker.submit("a", spec, PROMPT, SHORT, baseline=False)
    timer.join()
    assert finish(run).state == "done"


def test_check_waits_its_turn(worker: Worker, spec: PairSpec, pair: Pair) -> None:
    run = worker.submit("a", spec, PROMPT, LONG)
    wait_for_rounds(run, 1)
    check = worker.check(spec)
    wrong = worker.check(PairSpec(name="no such pair"))
    assert not check.done
    run.stop()
    wait_until(lambda: wrong.done)
    assert check.error is None
    assert check.result is not None
    assert check.result.vocabulary == pair.vocabulary
    assert wrong.result is None
    assert wrong.error is not None
    assert "no such pair" in wrong.error.culprit
