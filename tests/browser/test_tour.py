"""The tour: its captions, the question before the first rejection, and that it opens once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specviz.record.trace import RunConfig, Trace
from tests.browser.conftest import Demo, Server, wait_for_pair, wait_for_state
from tests.browser.reading import ROUND, click_run, next_frame
from tests.traces import make_trace

TOUR = '[data-testid="tour"]'
PLAY = '[data-testid="play"]'
SEEK = '[data-testid="seek"]'
REJECTED = '[data-index="0"] [data-place="0"][data-state="rejected"]'
SHOWS = """([tour, words]) => {
  const shown = document.querySelector(tour);
  return shown && !shown.hidden && shown.textContent.includes(words);
}"""
CAPTIONS = (
    "The small model guesses.",
    "The large model checks.",
    "The tokens are tested from left to right.",
    "The large model adds the last token.",
    "And again.",
    "Accept or reject",
)


# Records each caption, since one may be shown for less than a second.
RECORD = """(tour) => {
  window.captions = [];
  (function look() {
    const shown = document.querySelector(tour);
    const text = shown && !shown.hidden ? shown.textContent : '';
    if (text && window.captions.at(-1) !== text) window.captions.push(text);
    requestAnimationFrame(look);
  })();
}"""


def wait_for_caption(page: Any, text: str) -> None:
    """Wait for a caption that stays, or for the one after a click."""
    page.wait_for_function(SHOWS, arg=[TOUR, text], polling=50, timeout=60_000)


def question_first() -> Trace:
    """Return a run with the question in the first round, and many more rounds to play."""
    return make_trace(["r", *["a", "a", "r"] * 12], config=RunConfig(gamma=1))


def at_question(demo: Demo, open_page: Callable[..., Any]) -> Any:
    """Open the tour at the question."""
    page = open_page(demo.show("tour", question_first(), tour="ask"), tour=True)
    wait_for_caption(page, "Accept or reject")
    return page


def states(page: Any, index: int) -> list[str]:
    return page.eval_on_selector_all(
        f'{ROUND}[data-index="{index}"] [data-place]', "all => all.map(t => t.dataset.state)"
    )


def stored_state(page: Any) -> str | None:
    return page.evaluate("localStorage.getItem('specviz.tour')")


def test_captions_of_round_one_and_the_question_before_the_draw(
    demo: Demo, open_page: Callable[..., Any]
) -> None:
    trace = make_trace(["a", "ar", "a"], config=RunConfig(gamma=2))
    page = open_page("about:blank", tour=True)
    page.add_init_script(f"({RECORD})('{TOUR}')")
    page.goto(demo.show("captions", trace, tour="ask"))
    recorded = "last => window.captions.some(each => each.includes(last))"
    page.wait_for_function(recorded, arg=CAPTIONS[-1], timeout=60_000)
    seen = page.evaluate("window.captions")
    places = [next(at for at, each in enumerate(seen) if text in each) for text in CAPTIONS]
    assert places == sorted(places)
    next_frame(page)  # the card follows the question
    assert states(page, 1) == ["accepted", "drafted"]
    assert page.inner_text(PLAY) == "Play"
    position = page.input_value(SEEK)
    question, card = page.inner_text(TOUR), page.inner_text('[data-testid="verdict-card"]')
    for text in ("·w11", "50\u00a0%", "25\u00a0%", "acceptance probability is .50"):
        assert text in question
    assert "·w11" in card
    for spoiler in (".75", "rejected", "has not verified"):
        assert spoiler not in f"{question} {card}"
    page.wait_for_timeout(700)
    assert page.input_value(SEEK) == position


@pytest.mark.parametrize(
    ("choice", "reply"), [("Accept", "which was wrong. "), ("Reject", "which was right. ")]
)
def test_the_tour_replies_to_the_guess(
    demo: Demo, open_page: Callable[..., Any], choice: str, reply: str
) -> None:
    page = at_question(demo, open_page)
    page.click(f"{TOUR} button:text-is('{choice}')")
    wait_for_caption(page, "The draw was .75: rejected.")
    assert reply in page.inner_text(TOUR)
    page.wait_for_selector(REJECTED)
    page.click(f"{TOUR} button:text-is('Continue')")
    page.wait_for_selector(TOUR, state="hidden")
    next_frame(page)
    assert page.inner_text(PLAY) == "Pause"
    assert stored_state(page) == "seen"


def test_it_can_be_skipped_and_opens_once(demo: Demo, open_page: Callable[..., Any]) -> None:
    page = at_question(demo, open_page)
    page.click(f"{TOUR} button:text-is('Skip')")
    page.wait_for_selector(TOUR, state="hidden")
    next_frame(page)
    assert page.inner_text(PLAY) == "Pause"
    page.reload()
    page.wait_for_selector(f"{ROUND} [data-place]")
    next_frame(page)
    assert page.is_hidden(TOUR)
    assert page.input_value('[data-testid="speed"]') == "1"


def test_it_ends_when_the_user_takes_over(demo: Demo, open_page: Callable[..., Any]) -> None:
    trace = make_trace(["a", "ar", "a"], config=RunConfig(gamma=2))
    page = open_page(demo.show("captions", trace, tour="ask"), tour=True)
    page.wait_for_selector(TOUR)
    page.click('[data-testid="step-round"]')
    page.click('[data-testid="step-round"]')
    page.wait_for_selector(TOUR, state="hidden")
    assert stored_state(page) == "seen"


NO_STORAGE = """Object.defineProperty(window, 'localStorage', {
  get() { throw new DOMException('nothing is kept here', 'SecurityError'); },
})"""


def test_it_works_without_local_storage(demo: Demo, browser: Any) -> None:
    context = browser.new_context()
    context.add_init_script(NO_STORAGE)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(demo.show("tour", question_first(), tour="ask"))
    wait_for_caption(page, "Accept or reject")
    page.click(f"{TOUR} button:text-is('Skip')")
    page.wait_for_function(f"() => document.querySelector('{SEEK}').value > 8")
    assert not [error for error in errors if "nothing is kept" in error]
    context.close()


def test_a_link_reopens_it(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{server.url}/?tour=1")  # a browser that has seen the tour
    page.wait_for_selector(TOUR)
    page.click(f"{TOUR} button:text-is('Skip')")
    page.wait_for_selector(TOUR, state="hidden")


def test_starting_a_run_ends_it(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{server.url}/?length=24&target_body=none", tour=True)
    page.wait_for_selector(TOUR)
    wait_for_pair(page)
    page.reload()
    page.wait_for_selector(TOUR)
    click_run(page)
    wait_for_state(page, "done")
    assert page.is_hidden(TOUR)  # and open_page checks for script errors
