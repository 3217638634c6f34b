"""Presenter mode: result, player, verdict and race, in large type, on the page and in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specviz.player.replay import comparison_replay_html, replay_html
from tests.browser.conftest import Demo, Server, wait_for_pair, wait_for_state
from tests.browser.fed_player import Feed, data_of, feed, remove_player
from tests.browser.long_runs import recorded
from tests.browser.reading import END, ROUND, next_frame, seek
from tests.browser.replay_files import Opener, opener
from tests.browser.test_access import serious_violations
from tests.player.races import thrifty, wasteful

__all__ = ["feed"]  # a fixture

PRESENTED = '.sv[data-presenting="true"]'
BUTTON = '[data-testid="present"]'
TEXT = '[data-testid="text-pane"]'
CARD = '[data-testid="verdict-card"]'
HEADLINE, RACE = (".sum-headline", '[data-testid="lanes"]')
SMALLEST = 18
LOOKS = [
    (1440, 900, "light"),
    pytest.param(1024, 768, "dark", marks=pytest.mark.thorough),
    pytest.param(1440, 900, "dark", marks=pytest.mark.thorough),
    pytest.param(1024, 768, "light", marks=pytest.mark.thorough),
]
PHONE = (420, 860)

# Visible text below a size, and visible text outside the parts that are presented.
VISIBLE = """(smallest) => {
  const found = {small: [], strange: []};
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walk.nextNode()) {
    const { parentElement: element, textContent: text } = walk.currentNode;
    if (!text.trim() || !element.checkVisibility({visibilityProperty: true})) continue;
    if (element.closest('script, style, .unseen')) continue;
    range.selectNodeContents(walk.currentNode);
    const { width, height } = range.getBoundingClientRect();
    if (width * height === 0) continue;
    const size = parseFloat(getComputedStyle(element).fontSize);
    if (size < smallest) found.small.push(`${size} ${text.trim()}`);
    if (!element.closest('.player, .vd, .sum-headline, .lanes'))
      found.strange.push(text.trim());
  }
  return found;
}"""


BELOW = """(part) => {
  const { scrollHeight, clientHeight } = document.querySelector(part);
  return scrollHeight - clientHeight;
}"""
LINE = "parseFloat(getComputedStyle(document.querySelector('.words')).lineHeight)"


# Whether parts are inside the window, and the page is not wider than it.
INSIDE = """(parts) => document.documentElement.scrollWidth <= innerWidth && parts.every((part) => {
  const box = document.querySelector(part)?.getBoundingClientRect();
  return box && box.x >= 0 && box.y >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
})"""


def assert_presented(page: Any) -> None:
    """Assert that the result, the player, the verdict and the race are in view, in large type."""
    page.wait_for_selector(f"html[data-presenting] {PRESENTED}")
    page.wait_for_function(
        INSIDE, arg=[TEXT, CARD, HEADLINE, RACE]
    )  # a rerun may replace the player
    assert page.evaluate(VISIBLE, SMALLEST) == {"small": [], "strange": []}


def assert_text_is_whole(page: Any) -> None:
    """Assert that the panes show their last lines, and the text has space for three."""
    for last in (f"{TEXT} [data-at] >> nth=-1", f"{ROUND} >> nth=-1"):
        token = page.locator(last)
        pane = token.locator("xpath=ancestor::*[contains(@class, 'scroll')]").bounding_box()
        box = token.bounding_box()
        assert pane["y"] <= box["y"]
        assert box["y"] + box["height"] <= pane["y"] + pane["height"] + 1
    text = page.locator(f"{TEXT} .scroll").bounding_box()
    assert text["height"] >= 3 * page.evaluate(LINE)


def assert_left(page: Any) -> None:
    page.wait_for_selector(PRESENTED, state="detached")
    assert "present" not in page.url
    page.wait_for_selector("h1", state="visible")


@pytest.mark.parametrize(("width", "height", "scheme"), LOOKS)
def test_it_shows_the_result_the_player_the_verdict_and_the_race(
    demo: Demo, open_page: Callable[..., Any], width: int, height: int, scheme: str
) -> None:
    link = demo.show("talk", recorded(), state="done")
    page = open_page(link, width=width, height=height, scheme=scheme)
    page.wait_for_selector(ROUND)
    page.click(BUTTON)
    assert_presented(page)
    assert page.url.endswith("present=1")
    seek(page, 0)
    page.get_by_test_id("speed").select_option("instant")
    page.keyboard.press("n")
    page.wait_for_selector(f"{CARD} .vd-rejected")
    assert_presented(page)
    assert_text_is_whole(page)
    page.click('[data-testid="until"]')
    assert_presented(page)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    next_frame(page)
    assert_presented(page)
    page.click(BUTTON)
    assert_left(page)


def test_the_verdict_of_a_recovered_token_needs_no_scrolling(
    demo: Demo, open_page: Callable[..., Any]
) -> None:
    link = demo.show("talk", recorded(), state="done", present="1")
    page = open_page(link, width=1024, height=768)
    assert_presented(page)
    page.wait_for_selector(f"{CARD} .vd-rejected")
    assert page.evaluate(BELOW, CARD) <= 0, "the last round, which drafted fewer than γ tokens"
    seek(page, END)  # the card depends on how far the round has been played
    title = page.inner_text(f"{CARD} h3")
    page.locator(f"{ROUND} [data-state=rejected]").first.click()
    page.wait_for_function(
        "([card, old]) => document.querySelector(card).innerText !== old", arg=[f"{CARD} h3", title]
    )
    page.wait_for_selector(f"{CARD} .vd-rejected")
    assert page.evaluate(BELOW, CARD) <= 0


def test_a_link_opens_it_nothing_else_can_be_reached_and_keys_leave_it(
    demo: Demo, open_page: Callable[..., Any]
) -> None:
    page = open_page(demo.show("talk", recorded(), state="done", present="1"))
    assert_presented(page)
    for _ in range(40):
        page.keyboard.press("Tab")
        here = "document.activeElement === document.body || document.activeElement.closest('.sv')"
        assert page.evaluate(f"Boolean({here})")
    for key in ("p", "Escape"):
        page.keyboard.press(key)
        assert_left(page)
        page.keyboard.press("P")
        assert_presented(page)


NEWEST = ".to-newest:visible"
AT_END = """() => [...document.querySelectorAll('.text-pane .scroll, .rounds .scroll')]
  .map((pane) => pane.scrollHeight - pane.clientHeight - pane.scrollTop < 12)"""


def test_one_button_leads_both_panes_back_to_the_end(feed: Feed) -> None:
    page = feed(data_of(recorded()))
    page.keyboard.press("p")
    assert_presented(page)
    seek(page, END)
    assert page.evaluate(AT_END) == [True, True]
    for pane in (f"{TEXT} .scroll", ".rounds .scroll"):
        page.hover(pane)
        page.mouse.wheel(0, -80)
        page.wait_for_function(f"({AT_END})().includes(false)")
    page.wait_for_function(f"({AT_END})().every((each) => !each)")
    assert page.locator(NEWEST).count() == 1
    page.click(NEWEST)
    next_frame(page)
    assert page.evaluate(AT_END) == [True, True]
    assert page.locator(NEWEST).count() == 0


def test_on_a_phone_text_and_verdict_are_stacked(feed: Feed) -> None:
    width, height = PHONE
    page = feed(data_of(recorded()), width=width, height=height)
    page.keyboard.press("p")
    page.wait_for_selector(PRESENTED)
    next_frame(page)
    assert page.evaluate(VISIBLE, SMALLEST) == {"small": [], "strange": []}
    assert page.evaluate(f"document.querySelector('{PRESENTED}').scrollWidth") <= width
    text, card = (page.locator(part).bounding_box() for part in (TEXT, CARD))
    assert text["y"] + text["height"] < card["y"]


@pytest.mark.thorough
def test_a_live_run_continues_in_it(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{server.url}/?present=1&length=160&ignore_eos=true&gamma=1")
    assert_presented(page)
    page.keyboard.press("Escape")
    assert_left(page)
    wait_for_pair(page)
    page.click(".st-key-run button")
    page.locator(BUTTON).focus()
    page.keyboard.press("p")
    wait_for_state(page, "running", "done")
    assert_presented(page)
    seen = page.locator(f"{TEXT} [data-at]").count()
    # The last token may have appeared before the count.
    page.wait_for_function(
        f"""seen => document.querySelectorAll('{TEXT} [data-at]').length > seen ||
            document.querySelector('[data-testid=status]').dataset.state === 'done'""",
        arg=seen,
    )
    wait_for_state(page, "done", seconds=120)
    assert_presented(page)
    assert "present=1" in page.url
    page.reload()
    assert_presented(page)
    page.wait_for_selector("#first-stage", state="detached")
    assert_presented(page)
    page.keyboard.press("Escape")
    assert_left(page)
    page.click(".st-key-share button")
    assert "present" not in page.inner_text("[data-testid=stCode]")


@pytest.mark.thorough
def test_a_link_shows_the_first_view_in_it(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page("about:blank", stage=True)
    page.goto(f"{server.url}/?present=1", wait_until="commit")  # it may be gone when all is loaded
    page.wait_for_selector(f"#first-stage {PRESENTED}")
    page.wait_for_selector("#first-stage", state="detached")
    assert_presented(page)

    # From anywhere on the page, unless the user types.
    page.keyboard.press("Escape")
    assert_left(page)
    page.locator(".st-key-prompt textarea").press("p")
    next_frame(page)
    assert page.locator(PRESENTED).count() == 0
    page.locator(".st-key-temperature :is([role=slider], input)").first.click(force=True)
    page.keyboard.press("p")
    assert_presented(page)
    page.keyboard.press("Escape")
    assert_left(page)


# Esc, after the element of a player was removed and before the player is closed.
ESCAPE_AFTER_REMOVAL = """() => {
  const stage = document.createElement("div");
  stage.id = "stage";
  document.querySelector("#stage").replaceWith(stage);
  document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true}));
  window.unmountPlayer();
}"""


@pytest.mark.thorough
def test_it_continues_if_the_page_replaces_its_player(feed: Feed) -> None:
    """While the page is drawn again, its address may be an older one, without the mode."""
    data = data_of(recorded())
    page = feed(data)
    page.keyboard.press("p")
    assert_presented(page)
    remove_player(page)
    feed(data, page)
    assert_presented(page)
    assert "present=1" in page.url
    page.keyboard.press("Escape")
    assert page.locator(PRESENTED).count() == 0
    remove_player(page)
    feed(data, page)
    assert page.locator(PRESENTED).count() == 0
    page.keyboard.press("p")
    assert_presented(page)
    page.evaluate(ESCAPE_AFTER_REMOVAL)
    assert page.locator("html[data-presenting]").count() == 0
    feed(data, page)
    page.keyboard.press("p")
    assert_presented(page)
    remove_player(page)
    page.keyboard.press("Escape")  # between two players
    page.evaluate("history.replaceState(null, '', '?present=1')")  # as Streamlit may
    feed(data, page)
    assert page.locator(PRESENTED).count() == 0
    assert "present" not in page.url
    page.keyboard.press("p")
    assert_presented(page)
    remove_player(page, "/another")  # as Back does
    feed(data, page)
    assert page.locator(PRESENTED).count() == 0


# The page keeps the player for a moment, although Streamlit has called its cleanup.
OUTDATE = """() => {
  const stage = document.createElement("div"), old = document.querySelector("#stage");
  stage.id = "stage";
  old.id = "outdated";
  old.after(stage);
  window.unmountPlayer();
}"""


def test_an_outdated_player_does_not_take_its_keys(feed: Feed) -> None:
    data = data_of(recorded())
    page = feed(data)
    page.keyboard.press("p")
    page.evaluate(OUTDATE)
    feed(data, page)
    assert page.locator(PRESENTED).count() == 2
    page.keyboard.press("Escape")
    assert page.locator(f"{PRESENTED}, html[data-presenting]").count() == 0
    page.evaluate("document.querySelector('#outdated').remove()")
    page.keyboard.press("p")
    assert_presented(page)
    page.keyboard.press("Escape")
    assert page.locator(f"{PRESENTED}, html[data-presenting]").count() == 0


# Files


@pytest.fixture
def open_file(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    with opener(browser, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.thorough)])
def test_in_a_replay_file(open_file: Opener, scheme: str) -> None:
    page = open_file(replay_html(recorded()), height=900, color_scheme=scheme)
    page.keyboard.press("p")
    assert_presented(page)
    assert page.url.endswith("#present")
    page.reload()
    assert_presented(page)
    seek(page, END)
    page.keyboard.press("Escape")
    assert_left(page)
    page.evaluate("location.hash = 'present'")
    assert_presented(page)


def test_no_serious_violation(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "replay.html"
    path.write_text(replay_html(recorded()), encoding="utf-8")
    page = browser.new_page(bypass_csp=True)  # the checker is a script
    page.goto(f"{path.as_uri()}#present")
    page.keyboard.press("End")
    page.wait_for_selector(PRESENTED)
    assert serious_violations(page) == []
    page.close()


def test_a_race_does_not_offer_it(open_file: Opener) -> None:
    page = open_file(comparison_replay_html(["one", "two"], [thrifty(), wasteful()], verdict=""))
    assert page.locator(BUTTON).count() == 0
    page.keyboard.press("p")
    next_frame(page)
    assert page.locator(PRESENTED).count() == 0
