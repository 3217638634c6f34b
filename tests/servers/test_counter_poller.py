"""The counter poller: points, restarts, failures, and its end."""

from __future__ import annotations

import time

import pytest

from specviz.errors import ServerError
from specviz.record.server_run import Counters
from specviz.servers.counter_poller import CounterHistory, CounterPoller, history_of, points_of


def counted(at: float, drafts: float) -> Counters:
    return Counters(
        at=at, drafts=drafts, drafted=4 * drafts, accepted=3 * drafts,
        accepted_at=(drafts, drafts, drafts, 0.0), generated=4 * drafts,
    )  # fmt: skip


class Engine:
    """Returns these counters in turn, then the last one again, a second later each time."""

    def __init__(self, *found: Counters | ServerError) -> None:
        self.found, self.reads = list(found), 0

    def read(self) -> Counters:
        self.reads += 1
        each = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(each, ServerError):
            raise each
        return each


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specviz.servers.counter_poller._AFTER_FAILURE", 0.01)


def looked(
    engine: Engine, points: int, *, unseen: float = 5.0
) -> tuple[CounterPoller, CounterHistory]:
    poller = CounterPoller(engine.read, every=0.01, unseen=unseen)
    deadline = time.monotonic() + 10
    while (seen := poller.look(1.0)).total < points:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return poller, seen


def test_points_are_rates_over_the_last_seconds() -> None:
    _, seen = looked(Engine(*(counted(float(at), 10.0 * at) for at in range(30))), 25)
    point = seen.points[24]
    assert point.at == 24
    assert point.rates is not None
    assert point.rates.seconds == 10
    assert point.rates.accepted_length == 4
    assert point.rates.drafted_per_second == 40
    assert seen.recent is not None
    assert seen.recent.alpha_by_position == (1, 1, 1, 0)


def test_restart_has_no_rates() -> None:
    engine = Engine(counted(0, 100), counted(1, 110), counted(2, 5), counted(3, 9))
    _, seen = looked(engine, 4)
    assert [each.restarted for each in seen.points[:4]] == [False, False, True, False]
    assert seen.points[2].rates is None  # no rate is computed across a restart
    assert seen.points[3].rates is not None
    assert seen.points[3].rates.drafted_per_second == 16
    assert seen.restarts == 1


def test_failure_keeps_earlier_readings(hasty: None) -> None:
    failure = ServerError("It cannot be reached.", remedy="Start it.")
    poller, _ = looked(Engine(counted(0, 1), counted(1, 2), failure), 2)
    deadline = time.monotonic() + 5
    while (seen := poller.look()).error is None:
        assert time.monotonic() < deadline
    assert (seen.error, seen.total) == (failure, 2)
    assert seen.last == counted(1, 2)


def test_ends_without_looks() -> None:
    engine = Engine(counted(0, 1))
    poller, _ = looked(engine, 1, unseen=0.5)
    polling = poller._thread
    assert polling is not None
    polling.join(10)
    assert not polling.is_alive()
    reads = engine.reads
    poller.look()
    deadline = time.monotonic() + 10
    while engine.reads == reads:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_history_of_saved_counters() -> None:
    found = (counted(0, 0), counted(10, 20), counted(20, 30), counted(30, 4))
    points = points_of(found)
    assert [each.at for each in points] == [0, 10, 20, 30]
    rates = [each.rates and each.rates.drafted_per_second for each in points]
    assert rates == [None, 8, 4, None]
    assert points[3].restarted
    assert history_of(found[:1]).recent is None
    assert history_of(()).points == ()
