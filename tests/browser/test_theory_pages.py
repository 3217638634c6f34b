"""The theory pages in a browser: cold links, axe-core, width, and the answer to a slider."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Server
from tests.browser.reading import set_slider
from tests.browser.test_access import serious_violations

PAGES = ("speed", "rejections", "bias", "misleading", "claims")
CHARTED = ("speed", "rejections", "bias", "misleading")
CHART = '[data-testid="stPlotlyChart"] .main-svg'
ANSWER_SECONDS = 1.0


@pytest.fixture(scope="module")
def cold(serve: Callable[..., Server]) -> Server:
    """A server whose first page is not the app's first page."""
    return serve()


def at_rest(page: Any) -> None:
    page.wait_for_selector("h1")
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
    page.wait_for_timeout(400)


def cut_off(page: Any) -> list[str]:
    """What reaches beyond the right edge and does not scroll by itself."""
    return page.evaluate(
        "() => [...document.querySelectorAll('[data-testid=stMain] *')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1"
        " && !e.matches('input[type=range]')"
        " && !e.closest('[data-testid=stPlotlyChart], .katex-display, [data-testid=stTable],"
        " [data-testid=stDataFrame], [role=tablist], [data-testid=stTabs]'))"
        ".map(e => e.outerHTML.slice(0, 200))"
    )


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_by_a_cold_link(
    cold: Server, open_page: Callable[..., Any], name: str
) -> None:
    page = open_page(f"{cold.url}/{name}")
    at_rest(page)
    if name in CHARTED:
        page.wait_for_selector(CHART)
        assert page.locator(".katex").count() > 0
    assert page.get_by_text("Theory", exact=True).first.is_visible()
    assert page.locator('[data-testid="stException"], .katex-error').count() == 0
    pause = page.locator(f"[class*=st-key-{name}_pause] label")
    if pause.count():  # what ticks is pale for a moment while it is drawn anew
        pause.first.click()
        at_rest(page)
    assert serious_violations(page) == []
    page.emulate_media(color_scheme="dark")
    at_rest(page)
    assert serious_violations(page) == []
    page.set_viewport_size({"width": 420, "height": 860})
    page.wait_for_timeout(400)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert cut_off(page) == []


def test_a_slider_is_answered_at_once(cold: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{cold.url}/speed")
    page.wait_for_selector(CHART)
    at_rest(page)
    before = page.locator('[data-testid="stMain"]').inner_text()
    began = time.perf_counter()
    set_slider(page, "speed_alpha", -5)
    page.wait_for_function(
        "before => document.querySelector('[data-testid=stMain]').innerText !== before", arg=before
    )
    took = time.perf_counter() - began
    print(f"the page answers a slider after {took:.2f} s (bound {ANSWER_SECONDS})")
    assert took < 2 * ANSWER_SECONDS
