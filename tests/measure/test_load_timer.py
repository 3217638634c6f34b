"""The durations of the parts of loading a pair."""

from __future__ import annotations

import time

import pytest

from specviz.measure.load_timer import LoadTimer
from specviz.record.pairs import Progress


def test_times_each_activity_until_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    seen: list[Progress] = []
    timer = LoadTimer(seen.append)
    assert timer.parts() == ()
    timer.begin("importing")
    for text, at in [("reading", 1.0), ("reading", 2.0), ("checking", 4.0), ("reading", 5.0)]:
        now = at
        timer(Progress(activity="loading", text=text))
    for share, at in [(10, 6.0), (20, 6.5)]:
        now = at
        timer(Progress(activity="downloading", text=f"downloading x: {share} %"))
    now = 7.0
    timer(Progress(activity="compiling", text="compiling kernels"))
    now = 9.0
    assert [(each.text, each.seconds) for each in timer.parts()] == [
        ("importing", 1.0),
        ("reading", 4.0),
        ("checking", 1.0),
        ("downloading", 1.0),
        ("compiling kernels", 2.0),
    ]
    assert [each.text for each in seen[:4]] == ["reading", "reading", "checking", "reading"]
    assert len(seen) == 7
    assert timer.seconds_of_another_load() == 6.0
