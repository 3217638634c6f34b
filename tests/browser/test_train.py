"""The page Train in a browser: from the button to the head running in Watch."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.browser.conftest import Server, wait_for_state
from tests.browser.reading import at_rest, click_run, download_trace
from tests.browser.test_access import serious_violations
from tests.browser.test_theory_pages import cut_off

pytestmark = pytest.mark.timeout(240)

TINY = {
    "train_texts": "32", "train_longest": "48", "train_steps": "12", "train_length": "48",
    "train_batch": "4", "train_vocabulary": "256",
}  # fmt: skip


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server]) -> Server:
    """A server of its own, because the pair that is loaded changes."""
    return serve()


@pytest.mark.thorough
def test_from_the_button_to_the_head_in_watch(
    server: Server, open_page: Callable[..., Any]
) -> None:
    page = at_rest(open_page(f"{server.url}/train?{urlencode(TINY)}"))
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_text("The draft: EAGLE-3 head").wait_for(timeout=150_000)
    at_rest(page)
    assert serious_violations(page) == []
    page.get_by_role("button", name="Open in Watch").click()
    page.locator("#root [data-testid='player']").wait_for(timeout=60_000)
    at_rest(page)
    click_run(page)
    wait_for_state(page, "running", "done")
    wait_for_state(page, "done")
    draft = json.loads(download_trace(page))["pair"]["draft"]
    assert draft["family"] == "eagle3"
    assert draft["name"].endswith("tinystories-eagle3/draft")


@pytest.mark.thorough
@pytest.mark.parametrize("width", [420, pytest.param(1024, marks=pytest.mark.thorough)])
def test_the_costs_fit_the_window(
    server: Server, open_page: Callable[..., Any], width: int
) -> None:
    page = at_rest(open_page(f"{server.url}/train?train_kind=Medusa", width=width, height=900))
    page.get_by_text("predicted").first.wait_for(timeout=60_000)
    assert page.evaluate(
        "() => document.querySelector('[data-testid=stMain]').scrollWidth <= innerWidth"
    )
    assert not cut_off(page)
