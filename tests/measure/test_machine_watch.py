"""The load of the machine, as other processes cause it."""

from __future__ import annotations

import pytest

from specviz.measure import machine_watch
from specviz.measure.machine_watch import MachineWatch, RecentLoad


class Processors:
    """Two processors, of which other processes use a share."""

    def __init__(self) -> None:
        self.now = self.busy = self.own = 0.0

    def passes(self, seconds: float, *, others: float, own: float = 0.0) -> None:
        self.now += seconds
        self.busy += 2 * seconds * (others + own)
        self.own += 2 * seconds * own


@pytest.fixture
def processors(monkeypatch: pytest.MonkeyPatch) -> Processors:
    made = Processors()
    monkeypatch.setattr(machine_watch, "_processor_seconds", lambda: (made.busy, 2 * made.now))
    monkeypatch.setattr(machine_watch.time, "monotonic", lambda: made.now)
    monkeypatch.setattr(MachineWatch, "_own_seconds", lambda _: made.own)
    return made


def test_the_watch_leaves_out_its_own_process(processors: Processors) -> None:
    watch = MachineWatch()
    processors.passes(4.0, others=0.25, own=0.5)
    assert watch.conditions().others == pytest.approx(0.25)


def test_the_recent_load_is_that_since_the_last_call(processors: Processors) -> None:
    load = RecentLoad()
    assert load.others() is None
    processors.passes(4.0, others=0.5)
    assert load.others() == pytest.approx(0.5)
    processors.passes(2.0, others=0.1)
    assert load.others() == pytest.approx(0.1)


def test_too_short_a_time_does_not_change_the_recent_load(processors: Processors) -> None:
    load = RecentLoad()
    processors.passes(0.5, others=1.0)
    assert load.others() is None
    processors.passes(1.5, others=0.2)
    assert load.others() == pytest.approx(0.4)
    processors.passes(0.5, others=1.0)
    assert load.others() == pytest.approx(0.4)
