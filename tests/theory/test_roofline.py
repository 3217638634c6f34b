"""The roofline against reference values, and batches that do not fit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import ConfigError
from specviz.theory.roofline import (
    DRAFT_HALF_B,
    GPUS,
    TARGET_8B,
    Serving,
    largest_batch,
    sized,
)
from specviz.theory.speed import speedup

A100, H100, H200 = GPUS
SHORT = {1: 2.503, 8: 2.487, 32: 2.444, 64: 2.081, 128: 1.501, 256: 1.180}
BEST = {1: (6, 2.518), 8: (6, 2.499), 32: (6, 2.450), 64: (4, 2.339), 128: (2, 1.998),
        256: (2, 1.711)}  # fmt: skip
LONG = {1: 2.470, 8: 2.360, 32: 2.285}


def serving(batch: int, context: int = 1024, gpu: str = "H200") -> Serving:
    return Serving(
        gpu=next(each for each in GPUS if each.name == gpu),
        target=TARGET_8B,
        draft=DRAFT_HALF_B,
        batch=batch,
        context=context,
    )


def test_ridges() -> None:
    assert [round(gpu.ridge) for gpu in (A100, H100, H200)] == [153, 295, 206]


@pytest.mark.parametrize("batch", SHORT)
def test_short_contexts(batch: int) -> None:
    place = serving(batch)
    assert place.speedup(0.75, 5) == pytest.approx(SHORT[batch], abs=5e-4)
    gamma, best = place.best_gamma(0.75, 11)
    assert (gamma, best) == (BEST[batch][0], pytest.approx(BEST[batch][1], abs=5e-4))


@pytest.mark.parametrize("batch", LONG)
def test_long_contexts(batch: int) -> None:
    assert serving(batch, 16384).speedup(0.75, 5) == pytest.approx(LONG[batch], abs=5e-4)


def test_a_long_context_keeps_verification_free_in_a_batch() -> None:
    assert serving(52, 16384).verify_cost(5) == 1.0 < serving(52).verify_cost(5)
    assert serving(52, 16384).speedup(0.75, 5) > 2.0


def test_rejects_batches_that_do_not_fit() -> None:
    assert largest_batch(H200, TARGET_8B, DRAFT_HALF_B, 1024) == 844
    assert largest_batch(H200, TARGET_8B, DRAFT_HALF_B, 16384) == 52
    assert serving(52, 16384).batch == 52
    with pytest.raises(ConfigError, match="At most 52 fit"):
        serving(53, 16384)
    with pytest.raises(ConfigError, match=r"at 1,000,000 tokens.*Use a shorter context"):
        serving(1, 1_000_000, "A100")
    with pytest.raises(
        ConfigError, match="A batch of 1 does not fit either: use a shorter context"
    ):
        serving(2, 1_000_000, "A100")
    target = sized(TARGET_8B, 500e9)
    with pytest.raises(ConfigError, match="The weights alone take 1,001 GB"):
        Serving(gpu=H200, target=target, draft=DRAFT_HALF_B, batch=1, context=1024)


@given(
    batch=st.integers(1, 256),
    context=st.integers(1, 3000),
    gamma=st.integers(1, 16),
    alpha=st.floats(0.0, 1.0),
)
@settings(max_examples=60)
def test_speedup_is_the_formula_with_its_costs(
    batch: int, context: int, gamma: int, alpha: float
) -> None:
    place = serving(batch, context)
    v = place.verify_cost(gamma)
    assert 1.0 <= v <= gamma + 1 + 1e-12
    assert 0.0 < place.draft_cost < 1.0
    value = place.speedup(alpha, gamma)
    assert value == pytest.approx(speedup(alpha, gamma, place.draft_cost, v), rel=1e-12)
    assert place.best_gamma(alpha)[1] >= max(1.0, value) - 1e-12
    assert serving(batch + 1, context).speedup(alpha, gamma) <= value * (1 + 0.02)


def test_memory_bound_verification_is_free() -> None:
    assert serving(1).verify_cost(5) == 1.0
    assert serving(256).verify_cost(5) > 2.0
    assert serving(1).speedup(0.75, 0) == 1.0
