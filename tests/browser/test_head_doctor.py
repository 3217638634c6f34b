"""A drafting head in a browser: a run, its verdict card, and the head doctor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Server
from tests.browser.reading import ROUND, at_rest, run_to_its_end
from tests.browser.test_access import WITHOUT_STREAMLITS_LIST, own_violations, serious_violations
from tests.browser.test_text_size import assert_readable
from tests.browser.test_theory_pages import cut_off
from tests.browser.verdict_cards import CARD

PAIR = "tinystories-eagle3"
pytestmark = [pytest.mark.timeout(240), pytest.mark.thorough]


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (420, "dark")])
def test_the_card_of_a_run_says_what_the_head_read(
    server: Server, open_page: Callable[..., Any], width: int, scheme: str
) -> None:
    link = f"{server.url}/?embedded={PAIR}&length=24&live=false"
    page = open_page(link, width=width, height=900)
    page.emulate_media(color_scheme=scheme)
    page.get_by_test_id("status").get_by_text("with its head and run").wait_for()
    run_to_its_end(page)
    page.locator(f'#root {ROUND}[data-index="1"] [data-place="0"]').click()
    card = page.locator(f"#root {CARD}")
    card.get_by_text("the inputs of layers 2, 6 and 9 of the target at").wait_for()
    box = card.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert own_violations(page) == []


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (420, "dark")])
def test_the_doctor_finds_nothing_to_change_in_the_shipped_head(
    server: Server, open_page: Callable[..., Any], width: int, scheme: str
) -> None:
    page = open_page(f"{server.url}/lossless?embedded={PAIR}", width=width, height=900)
    page.emulate_media(color_scheme=scheme)
    page.add_style_tag(content=WITHOUT_STREAMLITS_LIST)
    at_rest(page)
    page.locator(".st-key-doctor_start button").click()
    box = page.locator(".st-key-head_doctor")
    box.get_by_text("Nothing to change").wait_for(timeout=180_000)
    box.locator(".scatterlayer").first.wait_for()
    at_rest(page)
    assert cut_off(page) == []
    assert_readable(page)
    assert serious_violations(page) == []
