"""The pace of the simulations, by a clock of the test's own."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from specviz.theory.chains import random_chains
from specviz.theory.simulation import Simulator, lossless_rule
from specviz.ui.theory import simulating
from specviz.ui.theory.simulating import Course


@pytest.fixture
def course() -> Course:
    chains = random_chains(4, 7, 5)
    return Course(Simulator(chains, lossless_rule(chains)))


def texts(course: Course, seconds: float) -> int:
    course.advance(seconds)
    assert course.result is not None
    return course.result.texts


def test_batches_too_short_for_the_clock_double_what_there_is(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulating, "time", SimpleNamespace(thread_time=lambda: 7.0))
    assert [texts(course, seconds=0.0) for _ in range(5)] == [32, 64, 128, 256, 512]


def test_a_batch_takes_no_longer_than_it_may(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count()  # a second a batch
    monkeypatch.setattr(simulating, "time", SimpleNamespace(thread_time=lambda: next(clock)))
    assert [texts(course, seconds=9.0) for _ in range(4)] == [32, 64, 128, 256]
    assert texts(course, seconds=0.5) == 256 + 64
    assert texts(course, seconds=0.0) == 256 + 64 + 32
