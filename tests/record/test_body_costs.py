"""The expected cost of a body on different machines, and the default body of a page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.errors import ConfigError
from specviz.record.bodies import NAMED_BODIES, NO_BODY, Shape
from specviz.record.body_costs import (
    LONGEST_STEP,
    MEMORY_SHARE,
    STEP_SHARE,
    BodyRoom,
    body_cost,
    default_body,
)
from specviz.record.pairs import memory_margin
from tests.machines import TARGET

LAPTOP = BodyRoom(target=TARGET, draft=TARGET, bandwidth=28e9, memory_free=16 * 10**9, itemsize=4)


def test_the_cost_follows_from_the_bytes_that_a_step_reads() -> None:
    cost = body_cost("90M", TARGET, LAPTOP)
    assert cost.parameters == 88_099_584
    assert cost.memory_bytes == cost.step_bytes == 4 * cost.parameters
    assert cost.step_seconds == pytest.approx(cost.step_bytes / (STEP_SHARE * 28e9))
    assert body_cost(NO_BODY, TARGET, LAPTOP).parameters == 6_099_648


def test_quantised_weights_are_read_as_they_are() -> None:
    stored = replace(TARGET, quantised=(0.5, None))
    assert body_cost(NO_BODY, stored, LAPTOP).step_bytes == 6_099_648 // 2
    assert body_cost("90M", stored, LAPTOP) == body_cost("90M", TARGET, LAPTOP)
    assert body_cost("90M", replace(TARGET, quantised=(1.0, 1.0)), LAPTOP).step_bytes == 88_099_584


def test_an_untied_embedding_does_not_count_as_read() -> None:
    model = replace(TARGET, tied=False)
    cost = body_cost("90M", model, LAPTOP)
    width = 768
    assert cost.memory_bytes - cost.step_bytes == 4 * 4096 * width


def test_whether_it_fits() -> None:
    cost = body_cost("llama-3.2-1b", TARGET, LAPTOP)
    enough = memory_margin(cost.memory_bytes)
    assert cost.fits(replace(LAPTOP, memory_free=enough))
    assert not cost.fits(replace(LAPTOP, memory_free=enough - 1))
    assert cost.fits(replace(LAPTOP, memory_free=None)) is None


GPU = replace(LAPTOP, bandwidth=3e12, memory_free=78 * 10**9, itemsize=2)


@pytest.mark.parametrize(
    ("room", "body"),
    [
        (LAPTOP, "smollm2-135m"),
        (replace(LAPTOP, bandwidth=130e9, memory_free=20 * 10**9), "llama-3.2-1b"),
        (replace(LAPTOP, bandwidth=100e9, memory_free=8 * 10**9), "qwen2.5-0.5b"),
        (replace(LAPTOP, bandwidth=12e9), "90M"),
        (replace(LAPTOP, bandwidth=5e9), "30M"),
        (replace(LAPTOP, bandwidth=1e9), NO_BODY),
        (replace(LAPTOP, memory_free=10**9), NO_BODY),
        (replace(LAPTOP, memory_free=None), NO_BODY),
        (replace(LAPTOP, target=None), NO_BODY),
        (GPU, "llama-3.1-8b"),
        (replace(GPU, memory_free=40 * 10**9), "llama-3.2-3b"),
    ],
)
def test_the_default_is_the_largest_affordable_body(room: BodyRoom, body: str) -> None:
    assert default_body(room) == body


def test_a_model_larger_than_every_body_has_no_default() -> None:
    large = replace(TARGET, shape=Shape(width=8192, feed_forward=28_672, layers=80))
    assert default_body(replace(GPU, target=large)) == NO_BODY


@given(st.floats(1e8, 1e13), st.integers(0, 10**12), st.sampled_from([2, 4]))
def test_no_default_is_slow_or_does_not_fit(bandwidth: float, free: int, itemsize: int) -> None:
    room = replace(LAPTOP, bandwidth=bandwidth, memory_free=free, itemsize=itemsize)
    body = default_body(room)
    if body == NO_BODY:
        return
    cost = body_cost(body, TARGET, room)
    assert cost.step_seconds <= LONGEST_STEP
    assert cost.memory_bytes <= MEMORY_SHARE * free
    assert cost.fits(room)
    for other in NAMED_BODIES:
        larger = body_cost(other, TARGET, room)
        if larger.parameters > cost.parameters:
            small = larger.memory_bytes <= MEMORY_SHARE * free and larger.fits(room)
            assert not small or larger.step_seconds > LONGEST_STEP


def test_a_body_smaller_than_the_model_has_no_cost() -> None:
    deep = replace(TARGET, shape=replace(TARGET.shape, layers=60))
    with pytest.raises(ConfigError):
        body_cost("smollm2-135m", deep, LAPTOP)
