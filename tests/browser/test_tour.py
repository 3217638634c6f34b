"""The first minute: captions, the question before the first rejection, and once only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specviz.record.trace import RunConfig, Trace
from tests.browser.conftest import Server, Stand, wait_for_pair, wait_for_state
from tests.browser.reading import ROUND, click_run, next_frame
from tests.traces import make_trace

TOUR = '[data-testid="tour"]'
PLAY = '[data-testid="play"]'
SEEK = '[data-testid="seek"]'
REJECTED = '[data-index="0"] [data-place="0"][data-state="rejected"]'
SAYS = """([tour, words]) => {
  const told = document.querySelector(tour);
  return told && !told.hidden && told.textContent.includes(words);
}"""
CAPTIONS = (
    "The small model guesses.",
    "The large model checks.",
    "They are judged from left to right.",
    "The large model has the last word.",
    "And again.",
    "Accept or reject",
)


def caption(page: Any, words: str) -> None:
    """Until the tour says so: a caption may stand for less than a second."""
    page.wait_for_function(SAYS, arg=[TOUR, words], polling=50, timeout=60_000)


def question_first() -> Trace:
    """The first round brings the question, so that it comes soon; many more are to be played."""
    return make_trace(["r", *["a", "a", "r"] * 12], config=RunConfig(gamma=1))


def asked(stand: Stand, open_page: Callable[..., Any]) -> Any:
    """A newcomer at the question."""
    page = open_page(stand.show("tour", question_first(), tour="ask"), tour=True)
    caption(page, "Accept or reject")
    return page


def states(page: Any, index: int) -> list[str]:
    return page.eval_on_selector_all(
        f'{ROUND}[data-index="{index}"] [data-place]', "all => all.map(t => t.dataset.state)"
    )


def kept(page: Any) -> str | None:
    return page.evaluate("localStorage.getItem('specviz.tour')")


def test_round_one_is_told_and_the_question_comes_before_the_draw(
    stand: Stand, open_page: Callable[..., Any]
) -> None:
    trace = make_trace(["a", "ar", "a"], config=RunConfig(gamma=2))
    page = open_page(stand.show("captions", trace, tour="ask"), tour=True)
    for words in CAPTIONS:
        caption(page, words)
    next_frame(page)  # the card follows the question
    assert states(page, 1) == ["accepted", "drafted"]
    assert page.inner_text(PLAY) == "Play"
    stood = page.input_value(SEEK)
    question, card = page.inner_text(TOUR), page.inner_text('[data-testid="verdict-card"]')
    for words in ("·w11", "50\u00a0%", "25\u00a0%", "odds of acceptance are .50"):
        assert words in question
    assert "·w11" in card
    for told_too_soon in (".75", "rejected", "has not checked"):
        assert told_too_soon not in f"{question} {card}"
    page.wait_for_timeout(700)
    assert page.input_value(SEEK) == stood


@pytest.mark.parametrize(
    ("choice", "reply"), [("Accept", "not what happened. "), ("Reject", "that is what happened. ")]
)
def test_an_answer_is_answered(
    stand: Stand, open_page: Callable[..., Any], choice: str, reply: str
) -> None:
    page = asked(stand, open_page)
    page.click(f"{TOUR} button:text-is('{choice}')")
    caption(page, "The draw was .75: rejected.")
    assert reply in page.inner_text(TOUR)
    page.wait_for_selector(REJECTED)
    page.click(f"{TOUR} button:text-is('Watch on')")
    page.wait_for_selector(TOUR, state="hidden")
    next_frame(page)
    assert page.inner_text(PLAY) == "Pause"
    assert kept(page) == "seen"


def test_it_can_be_skipped_and_comes_once(stand: Stand, open_page: Callable[..., Any]) -> None:
    page = asked(stand, open_page)
    page.click(f"{TOUR} button:text-is('Skip')")
    page.wait_for_selector(TOUR, state="hidden")
    next_frame(page)
    assert page.inner_text(PLAY) == "Pause"
    page.reload()
    page.wait_for_selector(f"{ROUND} [data-place]")
    next_frame(page)
    assert page.is_hidden(TOUR)
    assert page.input_value('[data-testid="speed"]') == "1"


def test_a_person_who_takes_over_is_left_alone(stand: Stand, open_page: Callable[..., Any]) -> None:
    trace = make_trace(["a", "ar", "a"], config=RunConfig(gamma=2))
    page = open_page(stand.show("captions", trace, tour="ask"), tour=True)
    caption(page, CAPTIONS[0])
    page.click('[data-testid="step-round"]')
    page.click('[data-testid="step-round"]')
    page.wait_for_selector(TOUR, state="hidden")
    assert kept(page) == "seen"


FORGETFUL = """Object.defineProperty(window, 'localStorage', {
  get() { throw new DOMException('nothing is kept here', 'SecurityError'); },
})"""


def test_a_browser_that_keeps_nothing_plays_all_the_same(stand: Stand, browser: Any) -> None:
    context = browser.new_context()
    context.add_init_script(FORGETFUL)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(stand.show("tour", question_first(), tour="ask"))
    caption(page, "Accept or reject")
    page.click(f"{TOUR} button:text-is('Skip')")
    page.wait_for_function(f"() => document.querySelector('{SEEK}').value > 8")
    assert not [error for error in errors if "nothing is kept" in error]
    context.close()


def test_a_link_brings_it_back(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{server.url}/?tour=1")  # a browser that has had the tour
    caption(page, CAPTIONS[0])
    page.click(f"{TOUR} button:text-is('Skip')")
    page.wait_for_selector(TOUR, state="hidden")


def test_a_run_that_starts_ends_it(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{server.url}/?length=24&target_body=none", tour=True)
    caption(page, CAPTIONS[0])
    wait_for_pair(page)
    page.reload()
    caption(page, CAPTIONS[0])
    click_run(page)
    wait_for_state(page, "done")
    assert page.is_hidden(TOUR)  # and no error of a script: open_page looks
