"""The tab "Under load" in a browser: a sweep of scripted engines from the button to the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.browser.conftest import Server
from tests.browser.reading import at_rest
from tests.browser.test_access import WITHOUT_STREAMLITS_LIST, serious_violations
from tests.browser.test_text_size import assert_readable
from tests.browser.test_theory_pages import cut_off
from tests.load.scripted_engine import running_two
from tests.servers.replaying import Served

pytestmark = pytest.mark.timeout(300)

WALL = '[data-testid="load-wall"]'
LINK = {
    "servers_tab": "Under load", "load_users": ["1", "8"], "load_seconds": "1", "load_ramp": "0",
    "load_budget": "1", "server_length": "16",
}  # fmt: skip
READABLE = 8.5  # pixels; the smallest text of the wall view at a quarter of its size
SIZES = """wall => [...wall.querySelectorAll('.head > span, .figure *, .entry')]
    .map(each => parseFloat(getComputedStyle(each).fontSize))"""


@pytest.fixture
def engines() -> Iterator[tuple[Served, Served]]:
    with running_two(0.02) as both:
        yield both


@pytest.mark.thorough
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (420, "dark")])
def test_from_the_button_to_the_verdict(
    server: Server,
    engines: tuple[Served, Served],
    open_page: Callable[..., Any],
    width: int,
    scheme: str,
) -> None:
    link = LINK | {"server": engines[0].address, "baseline": engines[1].address}
    url = f"{server.url}/servers?{urlencode(link, doseq=True)}"
    page = open_page(url, width=width, height=900, scheme=scheme)
    page.add_style_tag(content=WITHOUT_STREAMLITS_LIST)
    for left in (1, 0):
        page.get_by_role("button", name="Connect").first.click()
        page.wait_for_function(
            "count => [...document.querySelectorAll('button')]"
            ".filter(each => each.innerText.trim() === 'Connect').length === count",
            arg=left,
        )
    start = page.locator(".st-key-load_start button:enabled")
    start.wait_for()
    at_rest(page)
    assert serious_violations(page) == []
    assert cut_off(page) == []
    start.click()
    page.locator(f"{WALL} .users u").nth(7).wait_for()
    if width > 1000:
        assert min(page.locator(WALL).evaluate(SIZES)) / 4 >= READABLE
    assert cut_off(page) == []
    page.locator(".st-key-load_speedup_measured .scatterlayer").wait_for()
    assert serious_violations(page) == []
    start.wait_for(timeout=150_000)
    page.locator(WALL).wait_for(state="detached")
    at_rest(page)
    assert page.get_by_text("The break-even is at").is_visible()
    assert page.locator(".st-key-load_throughput_measured .scatterlayer").is_visible()
    assert_readable(page)
    assert serious_violations(page) == []
    assert cut_off(page) == []
