"""What a page shows first, and what fits into a narrow window, with the recorded results."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from tests.browser.conftest import Server
from tests.browser.reading import at_rest

PHONE = 420
BOXES = "all => all.map(each => each.getBoundingClientRect().toJSON())"
NUMBERS = ".st-key-tune_map .textpoint text"
VERDICT = "[class*=st-key-compare_verdict_]"


def boxes_of(page: Any, selector: str) -> list[dict[str, float]]:
    return page.eval_on_selector_all(selector, BOXES)


def overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    return (
        one["left"] < other["right"]
        and other["left"] < one["right"]
        and one["top"] < other["bottom"]
        and other["top"] < one["bottom"]
    )


@pytest.mark.thorough
def test_on_a_phone_every_number_of_the_map_is_legible(
    untouched: Server, open_page: Callable[..., Any]
) -> None:
    page = open_page(f"{untouched.url}/tune", width=PHONE, height=860)
    page.locator(NUMBERS).nth(63).wait_for()
    at_rest(page)
    numbers = boxes_of(page, NUMBERS)
    assert len(numbers) == 64
    assert min(each["left"] for each in numbers) >= 0
    assert max(each["right"] for each in numbers) <= PHONE
    assert not any(overlap(one, other) for one, other in combinations(numbers, 2))


@pytest.mark.thorough
def test_on_a_phone_the_verdict_comes_before_the_settings_and_a_lane_names_its_run(
    untouched: Server, open_page: Callable[..., Any]
) -> None:
    """A lane of the race shows one run; the verdict is about all of them."""
    from playwright.sync_api import expect

    page = open_page(f"{untouched.url}/compare", width=PHONE, height=860)
    page.locator(VERDICT).wait_for()
    detail = page.locator('[data-testid="stMain"] .sum-detail')
    expect(detail).to_have_text(re.compile(r"one of \d+ runs"))
    at_rest(page)
    (verdict,), (settings,) = (boxes_of(page, each) for each in (VERDICT, ".st-key-compare_lanes"))
    assert verdict["top"] < 860  # without scrolling
    assert verdict["bottom"] <= settings["top"]
    assert detail.is_visible()
