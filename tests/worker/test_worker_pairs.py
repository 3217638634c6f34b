"""What the dashboard sees of pairs that are loaded at the same time."""

from __future__ import annotations

from typing import cast

import pytest

from specviz.engine.model.pair import Pair
from specviz.errors import PairError
from specviz.measure import loaded_pairs
from specviz.record.pairs import PairSpec, ProgressCallback
from specviz.record.trace import RunConfig
from specviz.worker.child.inbox import Inbox
from specviz.worker.child.worker_pairs import WorkerPairs
from specviz.worker.messages import Event, PairGone, PairLoading, PairReady
from specviz.worker.parent.client import Worker
from tests.worker.waiting import finish

A, B = PairSpec(name="a"), PairSpec(name="b")


class NeverCancels:
    def cancelled(self, _request_id: str) -> bool:
        return False


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> list[Event]:
    def load(spec: PairSpec, _on_progress: ProgressCallback, *, before_kernels: bool) -> Pair:
        pair.lacks_kernels = before_kernels
        pair.notices = ("slow",) if before_kernels else ()
        if spec.name == "missing":
            raise PairError("There is no such pair.", remedy="Choose another.")
        return pair

    check = type("Check", (), {"memory_needed": 1})
    monkeypatch.setattr("specviz.engine.check_pair", lambda _spec, _on_progress: check)
    monkeypatch.setattr(loaded_pairs, "load", load)
    monkeypatch.setattr(loaded_pairs, "free_memory", lambda _spec: 10**15)
    monkeypatch.setattr(loaded_pairs, "release_memory", lambda: None)
    return []


def pairs_of(reported: list[Event]) -> WorkerPairs:
    return WorkerPairs(reported.append, cast("Inbox", NeverCancels()))


def pair_events(reported: list[Event]) -> list[tuple[str, str | None]]:
    """The events about pairs since the last call."""
    found = [
        (type(event).__name__, event.spec.name)
        for event in reported
        if isinstance(event, PairLoading | PairReady)
    ]
    found += [("PairGone", None) for event in reported if isinstance(event, PairGone)]
    reported.clear()
    return found


def test_reports_a_loaded_pair_as_ready_again(reported: list[Event]) -> None:
    pairs = pairs_of(reported)
    pairs.load(A, "1")
    assert pair_events(reported) == [("PairLoading", "a"), ("PairReady", "a")]
    pairs.load(A, "2")
    assert pair_events(reported) == []
    pairs.load(B, "3")
    assert pair_events(reported) == [("PairLoading", "b"), ("PairReady", "b")]
    pairs.load(A, "4")
    assert pair_events(reported) == [("PairReady", "a")]
    assert pairs.get(B) is not None
    pairs.unload()
    assert pair_events(reported) == [("PairGone", None)]
    assert pairs.get(A) is pairs.get(B) is None


def test_reports_the_loaded_pair_again_after_a_failure(reported: list[Event]) -> None:
    pairs = pairs_of(reported)
    pairs.load(A, "1")
    with pytest.raises(PairError):
        pairs.load(PairSpec(name="missing"), "2")
    pair_events(reported)
    pairs.load(A, "3")
    assert pair_events(reported) == [("PairReady", "a")]


def test_reports_a_pair_again_once_it_has_its_kernels(
    reported: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    def add_kernels(pair: Pair, _spec: PairSpec, _on_progress: ProgressCallback) -> None:
        pair.lacks_kernels, pair.notices = False, ()

    monkeypatch.setattr("specviz.engine.add_kernels", add_kernels)
    pairs = pairs_of(reported)
    pairs.load(A, "1", before_kernels=True)
    pairs.add_kernels(A)
    pairs.add_kernels(A)
    ready = [event for event in reported if isinstance(event, PairReady)]
    assert [(each.spec, each.notices) for each in ready] == [(A, ("slow",)), (A, ())]
    assert ready[0].parts == ready[1].parts != ()


def test_two_pairs_alternate_in_one_process(
    worker: Worker, spec: PairSpec, other_spec: PairSpec
) -> None:
    config = RunConfig(gamma=3, max_new_tokens=16, ignore_eos=True)
    runs = [
        finish(worker.submit("a", asked, "The dog ran to", config, baseline=False))
        for asked in (spec, other_spec, spec, other_spec)
    ]
    assert [run.state for run in runs] == ["done"] * 4
    assert all(run.trace is not None for run in runs)
    texts = [run.trace.text for run in runs if run.trace]
    assert texts[:2] == texts[2:]
    assert worker.status().spec == other_spec
