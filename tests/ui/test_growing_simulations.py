"""Batch sizes of growing simulations, with a fake clock."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from specviz.theory.chains import random_chains
from specviz.theory.simulation import Simulator, lossless_rule
from specviz.ui.theory import growing_simulations
from specviz.ui.theory.growing_simulations import GrowingSimulation, session_group


@pytest.fixture
def simulation() -> GrowingSimulation:
    chains = random_chains(4, 7, 5)
    return GrowingSimulation(Simulator(chains, lossless_rule(chains)))


def texts(simulation: GrowingSimulation, seconds: float) -> int:
    simulation.advance(seconds)
    assert simulation.result is not None
    return simulation.result.texts


def test_batches_too_short_to_time_double_the_total(
    simulation: GrowingSimulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_simulations, "time", SimpleNamespace(thread_time=lambda: 7.0))
    assert [texts(simulation, seconds=0.0) for _ in range(5)] == [32, 64, 128, 256, 512]


def test_the_width_is_that_of_the_95_percent_interval(simulation: GrowingSimulation) -> None:
    simulation.advance(1.0)
    found = simulation.estimates[-1]
    assert found.standard_error > 0
    assert simulation.width == pytest.approx(1.96 * found.standard_error / found.mean)


def test_changed_settings_start_again() -> None:
    chains = random_chains(4, 7, 5)

    def simulators() -> dict[str, Simulator]:
        return {"one": Simulator(chains, lossless_rule(chains))}

    first = session_group("rejections", ("seed", 1), simulators)
    assert session_group("rejections", ("seed", 1), simulators) is first
    assert session_group("rejections", ("seed", 2), simulators) is not first


def test_batch_size_respects_the_time_budget(
    simulation: GrowingSimulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count()  # one second per batch
    monkeypatch.setattr(
        growing_simulations, "time", SimpleNamespace(thread_time=lambda: next(clock))
    )
    assert [texts(simulation, seconds=9.0) for _ in range(4)] == [32, 64, 128, 256]
    assert texts(simulation, seconds=0.5) == 256 + 64
    assert texts(simulation, seconds=0.0) == 256 + 64 + 32
