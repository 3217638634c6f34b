"""Forks of a run, and moments reopened from a link and from a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from specviz.player.replay import replay_html
from specviz.record.forks import forks_text
from specviz.record.trace import Trace
from specviz.store import trace_from_json
from tests.browser.conftest import Server, wait_for_pair, wait_for_state
from tests.browser.long_runs import recorded
from tests.browser.reading import (
    TOUR,
    click_run,
    download_trace,
    next_frame,
    run_to_its_end,
    state_of,
    text_of,
    tour_to_question,
    wait_until_whole,
)
from tests.browser.replay_files import Opener, opener

CARD = '[data-testid="verdict-card"]'
FORK = '[data-testid="fork"]'
LINK = '[data-testid="link-card"]'
PARTING = f'{FORK} [data-testid="parting"]'
SETTINGS = "ignore_eos=true&length=64&target_body=none"
# Every control, as in a copied link by settings.
ALL_SETTINGS = (
    "shared_vocabulary=false&target_body=none&draft_body=none&length=64&gamma=5&temperature=0.8"
    "&top_k=0&top_p=1.0&seed=0&ignore_eos=true&chat=false&drafter=model&draft_until=count"
    "&num_drafts=1&rule=lossless&prompt=Once%20upon%20a%20time%2C%20there%20was%20a%20little%20girl"
    "%20named%20Lily.%20She%20loved%20to%20play%20in%20the%20park."
)
# What identifies a moment: the position, the selected token, the card's text.
MOMENT = """() => [document.querySelector('.where').textContent,
  document.querySelector('.rounds .chip.selected')?.textContent,
  document.querySelector('.vd-say').textContent, document.querySelector('.vd-if').textContent,
  document.querySelector('[data-testid=speed]').value]"""
TO_THE_TOP = "document.querySelector('[data-testid=stMain]').scrollTo(0, 0)"
# Both texts, and where they differ, can be read without scrolling.
IN_VIEW = """(selector) => {
  const found = document.querySelector(selector);  // absent while the page is drawn again
  if (!found) return false;
  const { top, bottom } = found.getBoundingClientRect();
  return 0 < top && top + 60 < bottom && bottom <= innerHeight;
}"""


@pytest.fixture
def open_file(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    with opener(browser, tmp_path) as opened:
        yield opened


def run_at(open_page: Callable[..., Any], url: str) -> tuple[Any, Trace]:
    """Return a page with a finished run, and its trace."""
    page = open_page(url, width=1024, height=768)
    wait_for_pair(page)
    run_to_its_end(page)
    trace = trace_from_json(download_trace(page))
    wait_until_whole(page, trace)
    return page, trace


def assert_in_view(page: Any, selector: str) -> None:
    box = page.locator(selector).bounding_box()
    assert box["y"] >= 56  # below the page's header
    assert box["y"] + box["height"] <= page.viewport_size["height"]


def choose_rejected(page: Any) -> None:
    """Select the last rejected candidate in view."""
    page.locator('.rounds .chip[data-state="rejected"]').last.click()
    page.wait_for_selector(f"{CARD}.vd-beside")


def try_a_draw_that_accepts(page: Any) -> None:
    """Drag to an accepting draw, on the last rejected candidate in view with target > 0."""
    for chip in reversed(page.locator('.rounds .chip[data-state="rejected"]').all()):
        chip.click()
        page.wait_for_selector(f"{CARD}.vd-beside")
        next_frame(page)
        assert not page.is_visible('[data-testid="fork-here"]')  # the real draw changes nothing
        page.locator(f"{CARD} [role=slider]").focus()
        page.keyboard.press("Home")
        next_frame(page)
        if page.is_visible('[data-testid="fork-here"]'):
            return
        page.keyboard.press("Escape")
    raise AssertionError("no rejected candidate has odds")


def forked(page: Any, before: Trace) -> Trace:
    """Wait for the requested fork to finish, and return its trace."""
    page.wait_for_function(IN_VIEW, arg=FORK)
    for _ in range(20):
        wait_for_state(page, "done")
        trace = trace_from_json(download_trace(page))
        if trace.config.forks != before.config.forks:
            wait_until_whole(page, trace)
            return trace
    raise AssertionError("no fork")


def assert_parted(page: Any, before: Trace, after: Trace) -> None:
    """Assert that both texts are side by side, with the first different tokens marked."""
    parted = next(
        i
        for i, (one, other) in enumerate(zip(before.token_ids, after.token_ids, strict=False))
        if one != other
    )
    page.wait_for_function("mark => document.querySelectorAll(mark).length === 2", arg=PARTING)
    there, here = page.locator(PARTING).all_inner_texts()
    assert there != here
    assert f"differ from token {parted + 1} on" in page.inner_text(FORK)


@pytest.mark.thorough
def test_a_fork_is_a_run_like_any_other(
    server: Server, open_page: Callable[..., Any], open_file: Opener
) -> None:
    page, before = run_at(open_page, f"{server.url}/?{SETTINGS}&temperature=0.8")
    try_a_draw_that_accepts(page)
    page.evaluate(TO_THE_TOP)
    page.locator('[data-testid="fork-here"]').focus()
    page.keyboard.press("Enter")
    after = forked(page, before)
    fork = after.config.forks[0]
    overruled = after.rounds[fork.round].candidates[fork.place]
    assert overruled.verdict == "accepted"
    assert overruled.overruled == before.rounds[fork.round].candidates[fork.place].uniform
    assert_parted(page, before, after)
    assert f"round {fork.round + 1}, token {fork.place + 1} " in page.inner_text(f"{CARD} h3")
    assert "Every other draw is the same." in page.inner_text(FORK)

    # A moment with a what-if opens identically in a new browser and from a file.
    choose_rejected(page)
    page.locator(f"{CARD} [role=slider]").focus()
    page.keyboard.press("End")
    page.locator('[data-testid="copy-link"]').focus()  # the open card may cover it at this size
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('.link-field').value")
    link, settings = page.locator(".link-field").evaluate_all("fields => fields.map(f => f.value)")
    card = page.inner_text(LINK)
    assert re.search(r"which is saved here, at round \d+, (token|with the verdict on round)", card)
    assert "Only this machine can reach the server" in card
    assert_in_view(page, LINK)
    moment = page.evaluate(MOMENT)
    with page.expect_download() as waiting:
        page.click(".link-replay")
    replay = waiting.value.path().read_text(encoding="utf-8")  # before the page does anything else
    fresh = open_page(link)
    wait_for_state(fresh, "done")
    fresh.wait_for_selector(f"{CARD}.vd-beside")
    assert fresh.evaluate(MOMENT) == moment
    assert text_of(fresh) == text_of(page)
    fresh.click('[data-testid="copy-link"]')
    fresh.keyboard.press("Escape")
    assert fresh.is_hidden(LINK)
    assert fresh.evaluate(MOMENT) == moment  # Esc has closed nothing else
    fresh.click('[data-testid="copy-link"]')
    fresh.keyboard.press("p")
    fresh.wait_for_selector('.sv[data-presenting="true"]')
    assert fresh.is_hidden(LINK)
    fresh.keyboard.press("p")
    fresh.wait_for_selector(FORK)
    fresh.wait_for_function("mark => document.querySelectorAll(mark).length === 2", arg=PARTING)
    file = open_file(replay)
    next_frame(file)
    file.wait_for_function("mark => document.querySelectorAll(mark).length === 2", arg=PARTING)
    assert file.evaluate(MOMENT) == moment
    assert file.locator(PARTING).all_inner_texts() == page.locator(PARTING).all_inner_texts()
    assert f"forks={quote(forks_text(after.config.forks), safe='')}" in settings


@pytest.mark.thorough
def test_the_tour_ends_with_a_fork_that_runs(
    serve: Callable[..., Server], open_page: Callable[..., Any]
) -> None:
    """With a server of its own: the fork of the recorded run loads its simulated size."""
    page = open_page(serve().url, tour=True)
    wait_for_pair(page)
    tour_to_question(page)
    page.click(f"{TOUR} .no")
    page.wait_for_selector(f"{TOUR}:has-text('The random draw was')")
    for card in ("safe", "drag"):
        page.click(f"{TOUR} .yes")
        page.wait_for_selector(f'{TOUR}[data-card="{card}"]:visible')
    page.locator(f"{CARD} [role=slider]").focus()
    page.keyboard.press("Home")
    page.click('[data-testid="fork-here"]')
    page.wait_for_function(
        "mark => document.querySelectorAll(mark).length === 2", arg=PARTING, timeout=180_000
    )
    wait_for_state(page, "done", seconds=180)


@pytest.mark.thorough
def test_a_link_by_settings_reproduces_a_fork(
    server: Server, open_page: Callable[..., Any]
) -> None:
    link = f"{server.url}/?{ALL_SETTINGS}&forks={quote('19:1:312=0.0', safe='')}"
    texts = []
    for _ in range(2):
        page = open_page(link)
        wait_for_pair(page)
        assert "The next run is forked at" in page.inner_text(".st-key-linked_fork")
        click_run(page)
        wait_for_state(page, "done")
        trace = trace_from_json(download_trace(page))
        assert forks_text(trace.config.forks) == "19:1:312=0.0"
        texts.append(trace.token_ids)
    assert texts[0] == texts[1]


@pytest.mark.thorough
def test_at_temperature_0_another_token_of_the_target_is_chosen(
    server: Server, open_page: Callable[..., Any]
) -> None:
    page, before = run_at(open_page, f"{server.url}/?{SETTINGS}&temperature=0")
    choose_rejected(page)
    picks = page.locator(f"{CARD} .vd-pick:visible")
    assert picks.count() == 9  # ten, without the run's own token
    name = picks.nth(2).get_attribute("aria-label")
    page.evaluate(TO_THE_TOP)
    picks.nth(2).click()
    after = forked(page, before)
    fork = after.config.forks[0]
    assert fork.instead in after.token_ids
    assert_parted(page, before, after)
    assert re.search(r"instead of its likeliest token, .+\.\n", page.inner_text(FORK))
    assert name.startswith("Fork here: go on with ")


def test_an_invalid_fork_link_is_ignored(server: Server, open_page: Callable[..., Any]) -> None:
    strange = "round=0&step=-1&token=9.x&speed=warp&draw=%3Cb%3E&forks=1:1:1=2"
    page = open_page(f"{server.url}/?{strange}&{SETTINGS}")
    page.wait_for_selector(".st-key-run button")
    page.wait_for_selector("text=Ignored the fork in the link.")
    assert state_of(page) == "recorded"


def test_a_file_opens_at_the_moment_in_its_address(
    open_file: Opener,
) -> None:
    trace = recorded()
    spot = next(
        (entry.index, place)
        for entry in trace.rounds[4:]
        for place, each in enumerate(entry.candidates)
        if each.verdict == "rejected"
    )
    page = open_file(replay_html(trace, moment={"round": "2", "step": "1"}))
    assert page.inner_text(".where").startswith("round 2 of")
    page.goto(f"{page.url}#round={spot[0] + 1}&token={spot[0] + 1}.{spot[1] + 1}&speed=2")
    page.reload()
    page.wait_for_selector(f"{CARD}.vd-beside")
    assert page.inner_text(".where").startswith(f"round {spot[0] + 1} of")
    assert f"round {spot[0] + 1}, token {spot[1] + 1} of" in page.inner_text(CARD)
    assert page.input_value('[data-testid="speed"]') == "2"
