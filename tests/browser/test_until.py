"""Playing that stops by itself: at the next rejection, an unlikely one, a bonus, a token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from specviz.player.replay import comparison_replay_html, replay_html
from specviz.record.trace import Trace
from tests.browser.conftest import Server, Stand, wait_for_state
from tests.browser.long_runs import events_of, fed_run, recorded
from tests.browser.reading import END, ROUND, next_frame, seek
from tests.browser.replay_files import Opener, opener
from tests.player.races import thrifty, wasteful
from tests.traces import make_round, make_trace

SEEK = '[data-testid="seek"]'
OPENER = '[data-testid="until"]'
TOLD = '[data-testid="until-told"]'
CARD = '[data-testid="verdict-card"].vd-beside'
LIMIT = '[data-testid="until-{}-limit"]'
UNLIKELY = 0.1


@dataclass(frozen=True, slots=True)
class Shown:
    """When the fate of a token is shown, what it is, and the token's number in the text."""

    event: int
    fate: str
    odds: float
    number: int | None


def moments(trace: Trace) -> list[Shown]:
    """Of a lossless run."""
    found: list[Shown] = []
    begin = tokens = 0
    for entry in trace.rounds:
        for place, each in enumerate(entry.candidates[: entry.num_tested]):
            stands = each.verdict == "accepted"
            tokens += stands
            event = begin + entry.num_drafted + 2 + place
            found.append(Shown(event, each.verdict, each.odds, tokens if stands else None))
        begin += events_of(entry)
        if entry.extra is not None:
            tokens += 1
            found.append(Shown(begin, str(entry.extra_kind), 1.0, tokens))
    return found


@pytest.fixture(scope="module")
def trace() -> Trace:
    return recorded()


@pytest.fixture(scope="module")
def rejections(trace: Trace) -> list[Shown]:
    return [each for each in moments(trace) if each.fate == "rejected"]


@pytest.fixture
def page(stand: Stand, open_page: Callable[..., Any], trace: Trace) -> Any:
    """The recorded run at its start, at the fastest pace."""
    opened = open_page(stand.show("until", trace, state="done"))
    opened.wait_for_selector(ROUND)
    opened.get_by_test_id("speed").select_option("instant")
    seek(opened, 0)
    return opened


def choose(page: Any, name: str) -> None:
    page.click(OPENER)
    page.click(f'[data-testid="until-{name}"]')


def wait_for_stop(page: Any) -> int:
    """The event at which it stood still with a token explained."""
    page.wait_for_selector(CARD)
    next_frame(page)
    assert page.inner_text('[data-testid="play"]') == "Play"
    return int(page.input_value(SEEK))


def told(page: Any) -> str:
    page.wait_for_selector(TOLD)
    next_frame(page)  # what was told before may stand there until then
    return str(page.inner_text(f"{TOLD} span"))


def test_it_goes_from_rejection_to_rejection(page: Any, rejections: list[Shown]) -> None:
    choose(page, "rejection")
    for each in rejections[:4]:
        assert wait_for_stop(page) == each.event
        assert page.inner_text(f"{CARD} .vd-say").rstrip(".").endswith("rejected")
        assert page.get_attribute(".rounds .selected", "data-state") == "rejected"
        page.keyboard.press("n")
        page.wait_for_function(
            "([seek, at]) => document.querySelector(seek).value > at", arg=[SEEK, each.event]
        )


def test_a_rejection_with_odds_that_the_reader_chooses(
    page: Any, rejections: list[Shown], trace: Trace
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
    bonus = next(each for each in moments(trace) if each.fate == "bonus")
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
    assert told(page) == "Token 40 is shown already."
    page.click(f"{TOLD} button")
    (token,) = (each for each in moments(trace) if each.number == 40)
    assert wait_for_stop(page) == token.event
    assert page.is_hidden(TOLD)
    assert page.locator('[data-testid="text-pane"] [data-at]').count() == prompt + 40


def test_where_none_is_left_it_says_so_and_stays(page: Any, rejections: list[Shown]) -> None:
    last = rejections[-1].event
    seek(page, last)
    page.keyboard.press("n")
    assert told(page) == "No other rejection comes in this run."
    assert page.input_value(SEEK) == str(last)
    page.keyboard.press("Escape")
    page.wait_for_selector(TOLD, state="hidden")
    choose(page, "rejection")
    page.click(f"{TOLD} button")
    assert wait_for_stop(page) == rejections[0].event


def test_where_the_run_has_none_it_says_so(stand: Stand, open_page: Callable[..., Any]) -> None:
    smooth = make_trace([make_round("aa"), make_round("aa")])
    page = open_page(stand.show("smooth", smooth, state="done"))
    page.wait_for_selector(ROUND)
    seek(page, 0)
    page.keyboard.press("n")
    assert told(page) == "No token of this run was rejected."
    assert page.locator(f"{TOLD} button").is_hidden()
    page.click(OPENER)
    page.fill(LIMIT.format("token"), "99")
    page.keyboard.press("Enter")
    assert told(page) == "The text of this run has only 6 tokens."


@pytest.mark.parametrize("pace", ["4", "true", "readable", "calm"])
def test_at_every_pace(page: Any, rejections: list[Shown], pace: str) -> None:
    if pace == "calm":
        page.emulate_media(reduced_motion="reduce")
        page.get_by_test_id("speed").select_option("4")
    else:
        page.get_by_test_id("speed").select_option(pace)
    page.keyboard.press("N")  # capitals are locked
    assert wait_for_stop(page) == rejections[0].event


def test_the_menu_is_used_by_keyboard_alone(page: Any, trace: Trace) -> None:
    page.focus(OPENER)
    page.keyboard.press("Enter")
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.type") == "number"
    page.keyboard.press("ArrowUp")
    assert page.input_value(LIMIT.format("unlikely")) == "0.35"
    page.keyboard.press(".")  # in the field it is no key of the player
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


def test_pausing_gives_it_up(page: Any) -> None:
    page.get_by_test_id("speed").select_option("0.25")
    choose(page, "token")
    next_frame(page)
    assert page.inner_text(OPENER) == "until token 20"
    page.keyboard.press(" ")
    next_frame(page)
    assert page.inner_text(OPENER) == "until …"


# While a run is under way


@pytest.fixture(scope="module")
def live_server(serve: Callable[..., Server]) -> Server:
    return serve("tests/browser/apps/live_app.py")


@pytest.mark.parametrize("pace", ["now", "4", "instant"])
def test_it_stops_in_a_run_under_way(
    live_server: Server, open_page: Callable[..., Any], pace: str
) -> None:
    page = open_page(live_server.url, pace=pace)
    page.wait_for_selector(ROUND)
    page.click(".st-key-start button")
    wait_for_state(page, "running")
    choose(page, "rejection")
    stopped = wait_for_stop(page)
    assert stopped in {each.event for each in moments(fed_run()) if each.fate == "rejected"}
    page.wait_for_function(f"at => document.querySelector('{SEEK}').max > at + 200", arg=stopped)
    assert int(page.input_value(SEEK)) == stopped  # while the decoder goes on
    page.keyboard.press("b")
    page.wait_for_function(f"at => document.querySelector('{SEEK}').value > at", arg=stopped)
    bonus = wait_for_stop(page)
    assert bonus in {each.event for each in moments(fed_run()) if each.fate == "bonus"}


def test_it_waits_for_what_may_still_come(
    live_server: Server, open_page: Callable[..., Any]
) -> None:
    page = open_page(live_server.url, pace="now")
    page.wait_for_selector(ROUND)
    page.click(".st-key-start button")
    wait_for_state(page, "running")
    page.click(OPENER)
    page.fill(LIMIT.format("token"), "100000")
    page.keyboard.press("Enter")
    next_frame(page)
    assert page.inner_text(OPENER) == "until token 100000"
    assert page.is_hidden(TOLD)
    tokens = sum(len(entry.emitted) for entry in fed_run().rounds)
    assert told(page) == f"The text of this run has only {tokens} tokens."
    assert page.input_value(SEEK) == page.get_attribute(SEEK, "max")


# Files


@pytest.fixture
def open_file(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    with opener(browser, tmp_path) as opened:
        yield opened


def test_in_a_replay_file(open_file: Opener, trace: Trace, rejections: list[Shown]) -> None:
    page = open_file(replay_html(trace))
    seek(page, 0)
    page.get_by_test_id("speed").select_option("4")
    choose(page, "rejection")
    assert wait_for_stop(page) == rejections[0].event


def test_a_race_does_not_offer_it(open_file: Opener) -> None:
    page = open_file(comparison_replay_html(["one", "two"], [thrifty(), wasteful()], verdict=""))
    assert page.locator(OPENER).count() == 0
    page.keyboard.press("Home")
    page.keyboard.press("n")
    next_frame(page)
    assert page.locator(CARD).count() == 0


def test_the_card_lets_go_of_what_a_stop_chose_but_not_of_a_press(page: Any) -> None:
    choose(page, "rejection")
    page.wait_for_selector(CARD)
    page.get_by_test_id("step-token").click()
    next_frame(page)
    assert page.locator(CARD).count() == page.locator(".rounds .chip.selected").count() == 0
    page.click(f"{ROUND} [data-place='0'] >> nth=0")
    page.get_by_test_id("step-token").click()
    next_frame(page)
    assert page.locator(".rounds .chip.selected").count() == 1


def test_nothing_is_newer_once_the_run_is_back_at_its_start(page: Any) -> None:
    seek(page, int(page.get_attribute(SEEK, "max")))
    page.hover(".rounds .scroll")
    page.mouse.wheel(0, -300)
    page.wait_for_selector(".rounds .to-newest")
    seek(page, 4)
    assert page.is_hidden(".rounds .to-newest")
