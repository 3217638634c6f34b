"""The head of Watch, above a player that never moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Server, wait_for_pair, wait_for_state
from tests.browser.fed_player import Feed, data_of, feed
from tests.browser.reading import click_run
from tests.traces import make_trace

__all__ = ["feed"]  # a fixture

# The place and the size of the player, whenever they differ from those of the frame before.
PLACES = """() => {
  window.places = [];
  (function look() {
    const player = document.querySelector('#root [data-testid="player"]');
    const { top, height } = player?.getBoundingClientRect() ?? {};
    const place = `${top} ${height}`;
    if (player && window.places.at(-1) !== place) window.places.push(place);
    requestAnimationFrame(look);
  })();
}"""


@pytest.mark.thorough
@pytest.mark.parametrize("width", [1440, pytest.param(420, marks=pytest.mark.thorough)])
def test_the_player_stays_in_place_during_a_run_and_below_its_reasons(
    server: Server, open_page: Callable[..., Any], width: int
) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{server.url}/?target_body=none&length=64", width=width, height=900)
    wait_for_pair(page)
    page.evaluate(PLACES)
    above = " | ".join(page.inner_text('[data-testid="stMain"]').split("\n"))[:240]
    click_run(page)
    wait_for_state(page, "done")
    reasons = page.locator("#root .sum-reasons")
    page.click("#root .sum-why summary")
    expect(reasons).to_be_visible()
    page.keyboard.press("Escape")
    expect(reasons).to_be_hidden()
    page.wait_for_timeout(500)
    places = page.evaluate("window.places")
    assert len(places) == 1, f"{places}, while the page showed {above}"


@pytest.mark.parametrize("width", [1070, 640])  # of the content at 1440 and 1024 pixels
def test_the_player_stays_in_place_while_the_head_fills(feed: Feed, width: int) -> None:
    data = data_of(make_trace(["r"]))
    known = data["summary"] | {
        "headline": "2.53× faster, same distribution",
        "span": "2.41 to 2.66×",
        "sizes": "simulated 122 M target; own size 1.03–1.34×",
    }
    known["round_cost"] = {
        "gamma": 5, "drafting": 0.09, "verification": 1.28, "other": 0.06, "tokens": 3.61,
        "size": "", "predicted": False, "caption": "Measured: draft 0.09 + verify 1.28 + "
        "other 0.06 = 1.43 target steps for 3.61 tokens: 2.53×.",
    }  # fmt: skip
    empty = known | {"span": "", "sizes": "", "round_cost": None}
    page = feed(data | {"summary": empty}, width=width)
    before = page.locator(".player").bounding_box()
    feed(data | {"summary": known}, page)
    assert page.locator(".sum-sizes").is_visible()
    assert page.locator(".player").bounding_box() == before


# Whether the two texts of the status line are wider than their elements.
CUT = """() => ['.sum-pill b', '.sum-detail'].map((each) => {
  const element = document.querySelector(each), range = document.createRange();
  range.selectNodeContents(element);
  return range.getBoundingClientRect().right > element.getBoundingClientRect().right + 0.01;
})"""


@pytest.mark.parametrize(("width", "cut"), [(1070, False), (380, True)])
def test_a_narrow_status_line_cuts_the_pair_and_keeps_what_to_do(
    feed: Feed, width: int, cut: bool
) -> None:
    data = data_of(make_trace(["r"]))
    run = data["run"] | {
        "label": "done · tinystories · simulated 122 M target, 20 M draft",
        "detail": "press Run to use the new size",
    }
    page = feed(data | {"run": run}, width=width)
    assert page.evaluate(CUT) == [cut, False]
    assert page.locator(".sum-pill b").bounding_box()["width"] >= 88
    assert page.locator(".sum-pill").get_attribute("title") == f"{run['label']} · {run['detail']}"
