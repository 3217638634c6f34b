"""The Compare page in a browser: from click to verdict, on the embedded pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.browser.conftest import Server
from tests.browser.test_access import serious_violations

pytestmark = pytest.mark.timeout(240)

VERDICT = ".st-key-compare_verdict_prompt"
RACER = '[data-testid="stMain"] .racer'


def compare_url(server: Server, *lanes: str, repeats: int = 3) -> str:
    asked = [("lane", lane) for lane in lanes]
    shared = {"compare_length": "24", "compare_repeats": str(repeats)}
    return f"{server.url}/compare?{urlencode([*asked, *shared.items()])}"


def come_to_verdict(page: Any) -> str:
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_role("button", name="Cancel", exact=True).wait_for()
    page.wait_for_selector(VERDICT, timeout=150_000)
    page.wait_for_selector('[data-testid="player"]')
    return page.locator(VERDICT).inner_text()


def test_from_click_to_verdict(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(compare_url(server, "gamma=2", "gamma=8"))
    verdict = come_to_verdict(page)
    assert "γ 2" in verdict
    assert "γ 8" in verdict
    assert "over 3 seeds" in verdict
    assert "6 runs: one prompt, 3 repeats, 24 tokens each" in verdict
    assert page.locator('[data-testid="stTable"]').count() == 1
    assert page.locator('[data-testid="stPlotlyChart"] .main-svg').first.is_visible()
    assert page.locator(RACER).count() >= 3  # both lanes and the target alone
    page.wait_for_timeout(600)
    assert serious_violations(page) == []
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download the comparison (JSON)").click()
    assert waiting.value.suggested_filename == "specviz-comparison.json"


def test_prompt_lookup_is_a_lane_too_and_narrow_pages_hold_it(
    server: Server, open_page: Callable[..., Any]
) -> None:
    url = compare_url(server, "gamma=4", "drafter=prompt-lookup", repeats=2)
    page = open_page(url, width=420, height=860, scheme="dark")
    verdict = come_to_verdict(page)
    assert "prompt lookup" in verdict
    assert "over 2 seeds" in verdict
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_a_lane_that_is_markup_is_shown_as_text(
    server: Server, open_page: Callable[..., Any]
) -> None:
    name = "<img src=x onerror=window.hurt()>"
    page = open_page(compare_url(server, f"gamma=2,name={name.replace('=', '')}", "gamma=8"))
    page.wait_for_selector("[class*=st-key-compare_card_]")
    assert page.locator('[data-testid="stMain"] img').count() == 0
    assert page.get_by_text("<img srcx onerrorwindow.hurt()>").first.is_visible()
