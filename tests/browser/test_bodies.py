"""Bodies in the browser: the default body, its sliders, runs before it is ready."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from specviz.engine import load_pair
from specviz.figures.body_words import EARLY_RUN, RUN_WITHOUT_BODY_HINT
from specviz.record.pairs import PairSpec
from tests.browser.conftest import Server, wait_for_state
from tests.browser.reading import STATUS, click_run, set_slider
from tests.step_costs import place_step_costs

# The boxes of the visible texts of the sliders and of the captions below them.
TEXTS = """() => {
  const texts = document.createTreeWalker(
    document.querySelector('.st-key-bodies'), NodeFilter.SHOW_TEXT);
  const range = document.createRange(), found = [];
  while (texts.nextNode()) {
    const { parentElement, textContent } = texts.currentNode;
    if (!textContent.trim() || !parentElement.checkVisibility({opacityProperty: true})) continue;
    range.selectNodeContents(texts.currentNode);
    const { left, right, top, bottom, width } = range.getBoundingClientRect();
    const isEnd = parentElement.closest('[data-testid=stSliderTickBar]') !== null;
    if (width > 1) found.push({text: textContent, isEnd, left, right, top, bottom});
  }
  return found;
}"""
ENDS = ".st-key-target_body [data-testid=stSliderTickBar]"
APP = "tests/browser/apps/machine_app.py"
WHOLE = "&length=16&live=false"


@pytest.fixture(scope="module")
def start_slow(serve: Callable[..., Server], data_folder: Path) -> Callable[[], Server]:
    """Start servers on a fake machine where 30M is the largest body that is fast enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(data_folder))
        spec = PairSpec(name="tinystories", threads=1, target_body="30M")
        place_step_costs(load_pair(spec))
    return lambda: serve(APP, SPECVIZ_FIRST_BODY="auto", SPECVIZ_MACHINE="slow")


@pytest.fixture(scope="module")
def slow(start_slow: Callable[[], Server]) -> Server:
    return start_slow()


def body_is(page: Any, body: str) -> None:
    """Wait until the slider shows the body's title."""
    from playwright.sync_api import expect

    slider = ":is(.st-key-target_body, .st-key-offered_target_body)"
    thumb = page.locator(f"{slider} [data-testid=stSliderThumbValue]")
    expect(thumb).to_have_text(body, timeout=60_000)


def until_pending(page: Any, *, pending: bool) -> None:
    page.wait_for_function(
        "([status, words, wanted]) => "
        "document.querySelector(status)?.textContent.includes(words) === wanted",
        arg=[STATUS, RUN_WITHOUT_BODY_HINT, pending],
        polling=50,
        timeout=90_000,
    )


@pytest.mark.thorough
def test_a_body_that_does_not_fit_is_reported_before_a_run_and_refused_by_it(
    slow: Server, open_page: Callable[..., Any]
) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{slow.url}/?target_body=100B{WHOLE}")
    body_is(page, "cost of 100 B")
    bodies = page.locator(".st-key-bodies")
    expect(bodies).to_contain_text("It does not fit: needs 521 GB to run", timeout=60_000)
    click_run(page)
    wait_for_state(page, "failed")
    expect(page.locator(".sum-notice")).to_contain_text("the pair needs 521 GB")
    page.get_by_role("button", name="Turn simulation off").click()
    body_is(page, "off")
    expect(bodies).not_to_contain_text("does not fit")


@pytest.mark.thorough  # the same is tested on the page without a browser
def test_a_run_before_the_body_is_ready_has_none(
    start_slow: Callable[[], Server], open_page: Callable[..., Any]
) -> None:
    """On a separate server, whose worker must start first, so that the click is early enough."""
    from playwright.sync_api import expect

    page = open_page(f"{start_slow().url}/?{WHOLE}")
    until_pending(page, pending=True)
    click_run(page)
    wait_for_state(page, "done")
    expect(page.locator(".sum-detail")).to_have_text(EARLY_RUN)
    body_is(page, "cost of 31 M")  # offered to the next run
    assert "simulates" not in page.locator(STATUS).inner_text()
    page.wait_for_selector(".st-key-unload_pair", state="attached", timeout=60_000)  # is ready
    click_run(page)
    expect(page.locator(STATUS)).to_contain_text(
        "simulates the cost of a 31 M model", timeout=60_000
    )
    body_is(page, "cost of 31 M")
    expect(page.locator(".sum-bodies")).to_contain_text("as much as in a model of 31 M")
    expect(page.locator(".sum-detail")).not_to_have_text(EARLY_RUN)
    assert "target_body=30M" in page.url


@pytest.mark.thorough
def test_a_slider_changes_the_body_and_one_click_removes_it(
    slow: Server, open_page: Callable[..., Any]
) -> None:
    from playwright.sync_api import expect

    page = open_page(f"{slow.url}/?target_body=none{WHOLE}")
    run = page.locator(".st-key-run button")
    expect(run).to_have_text("Run", timeout=60_000)
    set_slider(page, "target_body", 1)
    expect(run).to_have_text("Load the simulated size and run")
    body_is(page, "cost of 11 M")
    expect(page).to_have_url(re.compile("target_body=10M"))
    page.get_by_role("button", name="Turn simulation off").click()
    expect(run).to_have_text("Run")
    body_is(page, "off")


@pytest.mark.thorough
def test_the_ends_of_a_focused_slider_overlap_no_other_text(
    slow: Server, open_page: Callable[..., Any]
) -> None:
    page = open_page(f"{slow.url}/?target_body=none{WHOLE}")
    set_slider(page, "target_body", 1)
    body_is(page, "cost of 11 M")
    page.wait_for_function(
        "ends => getComputedStyle(document.querySelector(ends)).opacity === '1'", arg=ENDS
    )
    texts = page.evaluate(TEXTS)
    assert [each["isEnd"] for each in texts].count(True) == 2
    for one, other in combinations(texts, 2):
        beside = one["right"] <= other["left"] or other["right"] <= one["left"]
        below = one["bottom"] <= other["top"] or other["bottom"] <= one["top"]
        assert beside or below or not (one["isEnd"] or other["isEnd"]), (one, other)


@pytest.mark.thorough
def test_a_fast_machine_gets_a_larger_default(
    serve: Callable[..., Server], open_page: Callable[..., Any]
) -> None:

    server = serve(APP, SPECVIZ_FIRST_BODY="auto", SPECVIZ_MACHINE="fast")
    page = open_page(server.url)
    body_is(page, "cost of 122 M")
    page.get_by_role("button", name="Use the real size").click()  # before the body is ready
    until_pending(page, pending=False)
    body_is(page, "off")
