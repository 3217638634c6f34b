"""The tour: its cards, the question, the draw to drag, its place, and that it opens once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specviz.record.trace import RunConfig, Trace
from tests.browser.conftest import Demo, Server, wait_for_pair, wait_for_state
from tests.browser.fed_player import Feed, data_of, feed, remove_player
from tests.browser.reading import (
    ROUND,
    TOUR,
    click_run,
    next_frame,
    seek,
    settled_box,
    tour_to_question,
)
from tests.browser.verdict_cards import chip
from tests.traces import make_trace

__all__ = ["feed"]  # a fixture

PLAY = '[data-testid="play"]'
SEEK = '[data-testid="seek"]'
CARD = '[data-testid="verdict-card"]'
REJECTED = '[data-index="0"] [data-place="0"][data-state="rejected"]'


def next_card(page: Any, card: str) -> str:
    """Press Next and return the text of the next card."""
    page.click(f"{TOUR} .yes")
    return shown_card(page, card)


def shown_card(page: Any, card: str) -> str:
    page.wait_for_selector(f'{TOUR}[data-card="{card}"]:visible')
    return page.inner_text(TOUR).replace("\u00a0", " ")


def question_first() -> Trace:
    """Return a run with the question in the first round, and many more rounds to play."""
    return make_trace(["r", *["a", "a", "r"] * 12], config=RunConfig(gamma=1))


def at_question(feed: Feed) -> Any:
    """Open the tour at the question."""
    page = feed(data_of(question_first(), "recorded", tour="ask"))
    tour_to_question(page)
    return page


def states(page: Any, index: int) -> list[str]:
    return page.eval_on_selector_all(
        f'{ROUND}[data-index="{index}"] [data-place]', "all => all.map(t => t.dataset.state)"
    )


def stored_state(page: Any) -> str | None:
    return page.evaluate("localStorage.getItem('specviz.tour')")


def test_cards_of_round_one_and_the_question_before_the_draw(feed: Feed) -> None:
    trace = make_trace(["a", "ar", "a"], config=RunConfig(gamma=2))
    page = feed(data_of(trace, "recorded", tour="ask"))
    shown_card(page, "draft")
    page.wait_for_selector(f'{ROUND} [data-state="drafted"]')
    next_card(page, "check")
    assert page.locator(f"{TOUR} .tour-slots i").count() == 1 + 2  # one token, and two at once
    rule = next_card(page, "test")
    assert "stays if the target gives it at least the probability" in rule
    assert "chance decides" in rule
    extra = trace.rounds[0].extra
    assert extra is not None
    assert chip(extra.text) in next_card(page, "bonus")
    page.wait_for_selector(f'{ROUND} [data-state="bonus"]')
    next_card(page, "ask")
    page.wait_for_selector(f"{TOUR} .no")
    next_frame(page)  # the card follows the question
    assert states(page, 1) == ["accepted", "drafted"]
    assert page.inner_text(PLAY) == "Play"
    position = page.input_value(SEEK)
    question, card = page.inner_text(TOUR), page.inner_text(CARD)
    for text in ("·w11", "50\u00a0%", "25\u00a0%", "acceptance probability is 0.50"):
        assert text in question
    assert "·w11" in card
    for spoiler in ("0.75", "rejected", "has not verified"):
        assert spoiler not in f"{question} {card}"
    page.wait_for_timeout(700)
    assert page.input_value(SEEK) == position


@pytest.mark.parametrize(
    ("choice", "reply"),
    [
        pytest.param("Accept", "which was wrong. ", marks=pytest.mark.thorough),
        ("Reject", "which was right. "),
    ],
)
def test_the_tour_replies_to_the_guess(feed: Feed, choice: str, reply: str) -> None:
    page = at_question(feed)
    page.click(f"{TOUR} button:text-is('{choice}')")
    page.wait_for_selector(f"{TOUR}:has-text('The random draw was 0.75')")
    assert reply in page.inner_text(TOUR)
    page.wait_for_selector(REJECTED)


def test_the_tour_continues_if_the_page_replaces_its_player(feed: Feed) -> None:
    data = data_of(question_first(), "recorded", tour="ask")
    page = feed(data)
    shown_card(page, "draft")
    next_card(page, "check")
    remove_player(page)
    feed(data, page)
    shown_card(page, "check")
    next_card(page, "test")
    page.click(f"{TOUR} .skip")
    page.evaluate("localStorage.clear()")
    seek(page, 7)
    remove_player(page)
    feed(data, page)
    assert page.input_value(SEEK) == "7"
    assert page.inner_text(PLAY) == "Play"
    assert not page.is_visible(TOUR)


@pytest.mark.parametrize("forks", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_it_ends_with_a_draw_to_drag(feed: Feed, *, forks: bool) -> None:
    data = data_of(question_first(), "recorded", tour="ask")
    page = feed({**data, "run": {**data["run"], "forkable": forks}})
    tour_to_question(page)
    page.keyboard.press("Tab")  # from the question to Accept
    page.keyboard.press("Enter")
    page.wait_for_selector(REJECTED)
    page.keyboard.press("Enter")  # Next has the focus
    assert "bonus token" in shown_card(page, "safe")  # round 1 had none
    page.keyboard.press("Enter")
    last = shown_card(page, "drag")
    assert ("Fork here" in last) == forks
    assert ("Press Run" in last) != forks
    page.wait_for_selector(f"{CARD}.vd-beside")
    page.focus(f"{CARD} [role=slider]")
    page.keyboard.press("Home")
    next_frame(page)
    assert page.is_visible(f"{TOUR} >> text=Play on")
    assert page.is_visible('[data-testid="fork-here"]') == forks
    assert page.is_visible('[data-testid="no-fork"]') != forks
    page.click(f"{TOUR} .yes")
    page.wait_for_selector(TOUR, state="hidden")
    next_frame(page)
    assert page.inner_text(PLAY) == "Pause"
    assert stored_state(page) == "seen"


@pytest.mark.parametrize(
    "sizes",
    [((420, 860), (1440, 900)), pytest.param(((1024, 768),), marks=pytest.mark.thorough)],
    ids=["narrow and wide", "between"],
)
def test_it_is_clear_of_the_row_the_controls_and_the_race(
    demo: Demo, open_page: Callable[..., Any], sizes: tuple[tuple[int, int], ...]
) -> None:
    trace = make_trace(["a", "ar", "a"], config=RunConfig(gamma=2))
    link = demo.show("captions", trace, tour="force")
    page = open_page(link, width=sizes[0][0], height=sizes[0][1], tour=True)
    shown_card(page, "draft")
    for card in ("check", "test", "bonus", "ask"):
        next_card(page, card)
        for width, height in sizes:
            page.set_viewport_size({"width": width, "height": height})
            tour = settled_box(page, TOUR)
            for part in (f"{ROUND}[data-now=true]", ".sv .controls", ".sv .lanes"):
                other = page.locator(part).bounding_box()
                under = tour["y"] >= other["y"] + other["height"]
                over = tour["y"] + tour["height"] <= other["y"]
                assert under or over, (width, card, part)


def test_it_respects_reduced_motion(feed: Feed) -> None:
    data = data_of(question_first(), "recorded", tour="ask")
    page = feed(data, reduced_motion="reduce")
    for card in ("check", "test"):
        next_card(page, card)
        next_frame(page)
        assert page.input_value(SEEK) == "2"  # the candidate and the pass, at once
        assert page.eval_on_selector(TOUR, "e => e.getAnimations({subtree: true}).length") == 0


def test_it_can_be_skipped_and_opens_once(feed: Feed) -> None:
    page = at_question(feed)
    page.click(f"{TOUR} button:text-is('Skip')")
    page.wait_for_selector(TOUR, state="hidden")
    next_frame(page)
    assert page.inner_text(PLAY) == "Pause"
    page.reload()
    feed(data_of(question_first(), "recorded", tour="ask"), page)
    page.wait_for_selector(f"{ROUND} [data-place]")
    next_frame(page)
    assert page.is_hidden(TOUR)
    assert page.input_value('[data-testid="speed"]') == "1"


def test_it_ends_when_the_user_takes_over(feed: Feed) -> None:
    trace = make_trace(["a", "ar", "a"], config=RunConfig(gamma=2))
    page = feed(data_of(trace, "recorded", tour="ask"))
    page.wait_for_selector(TOUR)
    page.click('[data-testid="step-round"]')
    page.click('[data-testid="step-round"]')
    page.wait_for_selector(TOUR, state="hidden")
    assert stored_state(page) == "seen"


NO_STORAGE = """Object.defineProperty(window, 'localStorage', {
  get() { throw new DOMException('nothing is kept here', 'SecurityError'); },
})"""


@pytest.mark.thorough
def test_it_works_without_local_storage(demo: Demo, browser: Any) -> None:
    context = browser.new_context()
    context.add_init_script(NO_STORAGE)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(demo.show("tour", question_first(), tour="ask"))
    tour_to_question(page)
    page.keyboard.press("Escape")  # skips, too
    page.wait_for_function(f"() => document.querySelector('{SEEK}').value > 8")
    assert not [error for error in errors if "nothing is kept" in error]
    context.close()


@pytest.mark.thorough  # tests/ui/test_watch.py: what a link sends to the player
def test_a_link_reopens_it(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{server.url}/?tour=1")  # a browser that has seen the tour
    page.wait_for_selector(TOUR)
    page.click(f"{TOUR} button:text-is('Skip')")
    page.wait_for_selector(TOUR, state="hidden")


@pytest.mark.thorough
def test_starting_a_run_ends_it(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{server.url}/?length=24&target_body=none", tour=True)
    page.wait_for_selector(TOUR)
    wait_for_pair(page)
    page.reload()
    page.wait_for_selector(TOUR)
    click_run(page)
    wait_for_state(page, "done")
    assert page.is_hidden(TOUR)  # and open_page checks for script errors
