"""Play until the next rejection, an unlikely one, a bonus token, or a token of the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from specviz.player.replay import comparison_replay_html, replay_html
from specviz.record.trace import Trace
from tests.browser.conftest import Server, wait_for_state
from tests.browser.fed_player import Feed, data_of, feed
from tests.browser.long_runs import events_of, fed_run, recorded
from tests.browser.reading import END, ROUND, next_frame, seek
from tests.browser.replay_files import Opener, opener
from tests.player.races import thrifty, wasteful
from tests.traces import make_round, make_trace

__all__ = ["feed"]  # a fixture

SEEK = '[data-testid="seek"]'
OPENER = '[data-testid="until"]'
NOTICE = '[data-testid="until-told"]'
CARD = '[data-testid="verdict-card"].vd-beside'
LIMIT = '[data-testid="until-{}-limit"]'
UNLIKELY = 0.1


@dataclass(frozen=True, slots=True)
class Outcome:
    """The event that shows a token's fate, the fate, and the token's number in the text."""

    event: int
    fate: str
    odds: float
    number: int | None


def outcomes(trace: Trace) -> list[Outcome]:
    """Return the outcomes of a lossless run."""
    found: list[Outcome] = []
    begin = tokens = 0
    for entry in trace.rounds:
        for place, each in enumerate(entry.candidates[: entry.num_tested]):
            accepted = each.verdict == "accepted"
            tokens += accepted
            event = begin + entry.num_drafted + 2 + place
            found.append(Outcome(event, each.verdict, each.odds, tokens if accepted else None))
        begin += events_of(entry)
        if entry.extra is not None:
            tokens += 1
            found.append(Outcome(begin, str(entry.extra_kind), 1.0, tokens))
    return found


@pytest.fixture(scope="module")
def trace() -> Trace:
    return recorded()


@pytest.fixture(scope="module")
def rejections(trace: Trace) -> list[Outcome]:
    return [each for each in outcomes(trace) if each.fate == "rejected"]


@pytest.fixture
def page(feed: Feed, trace: Trace) -> Any:
    """The recorded run, at its start and at "instant" speed."""
    opened = feed(data_of(trace))
    opened.wait_for_selector(ROUND)
    opened.get_by_test_id("speed").select_option("instant")
    seek(opened, 0)
    return opened


def choose(page: Any, name: str) -> None:
    page.click(OPENER)
    page.click(f'[data-testid="until-{name}"]')


def wait_for_stop(page: Any) -> int:
    """Wait until playing stops at a token, and return the event."""
    page.wait_for_selector(CARD)
    next_frame(page)
    assert page.inner_text('[data-testid="play"]') == "Play"
    return int(page.input_value(SEEK))


def notice(page: Any) -> str:
    page.wait_for_selector(NOTICE)
    next_frame(page)  # an earlier notice may be shown until then
    return str(page.inner_text(f"{NOTICE} span"))


def test_it_stops_at_every_rejection(page: Any, rejections: list[Outcome]) -> None:
    choose(page, "rejection")
    for each in rejections[:4]:
        assert wait_for_stop(page) == each.event
        assert page.inner_text(f"{CARD} .vd-say").rstrip(".").endswith("rejected")
        assert page.get_attribute(".rounds .selected", "data-state") == "rejected"
        page.keyboard.press("n")
        page.wait_for_function(
            "([seek, at]) => document.querySelector(seek).value > at", arg=[SEEK, each.event]
        )


def test_a_rejection_below_a_chosen_probability(
    page: Any, rejections: list[Outcome], trace: Trace
) -> None:
    page.click(OPENER)
    page.fill(LIMIT.format("unlikely"), str(UNLIKELY))
    page.keyboard.press("Enter")
    unlikely = [each.event for each in rejections if each.odds < UNLIKELY]
    assert rejections[0].event < unlikely[0] == wait_for_stop(page)
    page.keyboard.press("u")
    page.wait_for_function(
        "([seek, at]) => document.querySelector(seek).value == at", arg=[SEEK, unlikely[1]]
    )
    assert trace.config.exact


def test_the_next_bonus(page: Any, trace: Trace) -> None:
    page.keyboard.press("b")
    bonus = next(each for each in outcomes(trace) if each.fate == "bonus")
    assert wait_for_stop(page) == bonus.event
    assert page.inner_text(f"{CARD} .vd-say").startswith("All ")


def test_a_token_chosen_from_the_text(page: Any, trace: Trace) -> None:
    seek(page, END)
    prompt = len(trace.prompt.token_ids)
    page.click(f'[data-testid="text-pane"] [data-at="{prompt + 39}"]')
    next_frame(page)
    page.keyboard.press("Escape")
    page.click(OPENER)
    assert page.input_value(LIMIT.format("token")) == "40"
    page.click('[data-testid="until-token"]')
    assert notice(page) == "Token 40 is already shown."
    page.click(f"{NOTICE} button")
    (token,) = (each for each in outcomes(trace) if each.number == 40)
    assert wait_for_stop(page) == token.event
    assert page.is_hidden(NOTICE)
    assert page.locator('[data-testid="text-pane"] [data-at]').count() == prompt + 40


def test_it_reports_that_none_is_left(page: Any, rejections: list[Outcome]) -> None:
    last = rejections[-1].event
    seek(page, last)
    page.keyboard.press("n")
    assert notice(page) == "There are no more rejections in this run."
    assert page.input_value(SEEK) == str(last)
    page.keyboard.press("Escape")
    page.wait_for_selector(NOTICE, state="hidden")
    choose(page, "rejection")
    page.click(f"{NOTICE} button")
    assert wait_for_stop(page) == rejections[0].event


def test_it_reports_that_the_run_has_none(feed: Feed) -> None:
    smooth = make_trace([make_round("aa"), make_round("aa")])
    page = feed(data_of(smooth))
    page.wait_for_selector(ROUND)
    seek(page, 0)
    page.keyboard.press("n")
    assert notice(page) == "This run has no rejections."
    assert page.locator(f"{NOTICE} button").is_hidden()
    page.click(OPENER)
    page.fill(LIMIT.format("token"), "99")
    page.keyboard.press("Enter")
    assert notice(page) == "The text of this run has only 6 tokens."


@pytest.mark.parametrize(
    "pace",
    [
        "4",
        *(pytest.param(each, marks=pytest.mark.thorough) for each in ("true", "readable", "calm")),
    ],
)
def test_at_every_pace(page: Any, rejections: list[Outcome], pace: str) -> None:
    if pace == "calm":
        page.emulate_media(reduced_motion="reduce")
        page.get_by_test_id("speed").select_option("4")
    else:
        page.get_by_test_id("speed").select_option(pace)
    page.keyboard.press("N")  # with Caps Lock
    assert wait_for_stop(page) == rejections[0].event


def test_the_menu_works_with_the_keyboard(page: Any, trace: Trace) -> None:
    page.focus(OPENER)
    page.keyboard.press("Enter")
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.type") == "number"
    page.keyboard.press("ArrowUp")
    assert page.input_value(LIMIT.format("unlikely")) == "0.35"
    page.keyboard.press(".")  # in the field, keys are not shortcuts
    assert page.get_by_test_id("speed").input_value() == "instant"
    page.keyboard.press("Escape")
    assert page.is_hidden('[data-testid="until-bonus"]')
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    wait_for_stop(page)
    page.keyboard.press(" ")  # the focus is on Play
    page.wait_for_function(
        f"end => Number(document.querySelector('{SEEK}').value) === end",
        arg=sum(map(events_of, trace.rounds)),
    )


def test_pausing_cancels_it(page: Any) -> None:
    page.get_by_test_id("speed").select_option("0.25")
    choose(page, "token")
    next_frame(page)
    assert page.inner_text(OPENER) == "until token 20"
    page.keyboard.press(" ")
    next_frame(page)
    assert page.inner_text(OPENER) == "until …"


# Live runs


@pytest.fixture(scope="module")
def live_server(serve: Callable[..., Server]) -> Server:
    return serve("tests/browser/apps/live_app.py")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "pace", ["now", *(pytest.param(each, marks=pytest.mark.thorough) for each in ("4", "instant"))]
)
def test_it_stops_in_a_live_run(
    live_server: Server, open_page: Callable[..., Any], pace: str
) -> None:
    page = open_page(live_server.url, pace=pace)
    page.wait_for_selector(ROUND)
    page.click(".st-key-start button")
    wait_for_state(page, "running")
    choose(page, "rejection")
    stopped = wait_for_stop(page)
    assert stopped in {each.event for each in outcomes(fed_run()) if each.fate == "rejected"}
    later = min(stopped + 200, sum(map(events_of, fed_run().rounds)))
    page.wait_for_function(f"at => document.querySelector('{SEEK}').max >= at", arg=later)
    assert int(page.input_value(SEEK)) == stopped  # while the decoder continues
    page.keyboard.press("b")
    page.wait_for_function(f"at => document.querySelector('{SEEK}').value > at", arg=stopped)
    bonus = wait_for_stop(page)
    assert bonus in {each.event for each in outcomes(fed_run()) if each.fate == "bonus"}


@pytest.mark.thorough
def test_it_waits_for_rounds_to_come(live_server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(live_server.url, pace="now")
    page.wait_for_selector(ROUND)
    page.click(".st-key-start button")
    wait_for_state(page, "running")
    page.click(OPENER)
    page.fill(LIMIT.format("token"), "100000")
    page.keyboard.press("Enter")
    next_frame(page)
    assert page.inner_text(OPENER) == "until token 100000"
    assert page.is_hidden(NOTICE)
    tokens = sum(len(entry.emitted) for entry in fed_run().rounds)
    assert notice(page) == f"The text of this run has only {tokens} tokens."
    assert page.input_value(SEEK) == page.get_attribute(SEEK, "max")


# Files


@pytest.fixture
def open_file(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    with opener(browser, tmp_path) as opened:
        yield opened


def test_in_a_replay_file(open_file: Opener, trace: Trace, rejections: list[Outcome]) -> None:
    page = open_file(replay_html(trace))
    seek(page, 0)
    page.get_by_test_id("speed").select_option("instant")
    choose(page, "rejection")
    assert wait_for_stop(page) == rejections[0].event


def test_a_race_does_not_offer_it(open_file: Opener) -> None:
    page = open_file(comparison_replay_html(["one", "two"], [thrifty(), wasteful()], verdict=""))
    assert page.locator(OPENER).count() == 0
    page.keyboard.press("Home")
    page.keyboard.press("n")
    next_frame(page)
    assert page.locator(CARD).count() == 0


def test_the_card_clears_a_stops_selection_but_not_the_users(page: Any) -> None:
    choose(page, "rejection")
    page.wait_for_selector(CARD)
    page.get_by_test_id("step-token").click()
    next_frame(page)
    assert page.locator(CARD).count() == page.locator(".rounds .chip.selected").count() == 0
    page.click(f"{ROUND} [data-place='0'] >> nth=0")
    page.get_by_test_id("step-token").click()
    next_frame(page)
    assert page.locator(".rounds .chip.selected").count() == 1


def test_seeking_to_the_start_hides_the_button_to_the_newest_round(page: Any) -> None:
    seek(page, int(page.get_attribute(SEEK, "max")))
    page.hover(".rounds .scroll")
    page.mouse.wheel(0, -300)
    page.wait_for_selector(".rounds .to-newest")
    seek(page, 4)
    assert page.is_hidden(".rounds .to-newest")
