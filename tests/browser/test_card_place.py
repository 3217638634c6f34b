"""The verdict card's position: in view, beside its token, and playback meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specviz.record.trace import Trace
from tests.browser.conftest import Demo
from tests.browser.fed_player import Feed, data_of, feed
from tests.browser.long_runs import events_of, repeated
from tests.browser.reading import ROUND, next_frame, seek
from tests.browser.verdict_cards import CARD, trace

__all__ = ["feed", "trace"]  # fixtures

BESIDE = f"{CARD}.vd-beside"
MAIN = "document.querySelector('[data-testid=stMain]')"  # the element that Streamlit scrolls
TO_THE_TOP = f"{MAIN}.scrollTo(0, 0)"
SIZES = [
    pytest.param(1440, 900, marks=pytest.mark.thorough),
    pytest.param(1024, 768, marks=pytest.mark.thorough),
    (420, 860),
]
PARTS = (1.0, 0.5, 0.001)  # of a long run: its last rounds, some in the middle, its first


def frames_of(page: Any, selector: str) -> list[dict[str, float]]:
    return page.eval_on_selector_all(
        selector, "all => all.map(each => each.getBoundingClientRect().toJSON())"
    )


def in_view(page: Any, frame: dict[str, float]) -> bool:
    size = page.viewport_size
    return (
        0 <= frame["top"] < frame["bottom"] <= size["height"]
        and 0 <= frame["left"] < frame["right"] <= size["width"]
    )


def assert_beside(page: Any, token: str) -> None:
    """Assert that the card is in view, below its token and the token's round, which are in view."""
    (card,) = frames_of(page, BESIDE)
    assert in_view(page, card)
    tokens = [each for each in frames_of(page, token) if in_view(page, each)]
    rounds = [each for each in frames_of(page, ".round:has(.selected)") if in_view(page, each)]
    assert tokens
    assert rounds
    assert all(card["top"] >= each["bottom"] for each in (*tokens, *rounds))


@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_card_and_token_are_both_in_view(
    demo: Demo, open_page: Callable[..., Any], trace: Trace, width: int, height: int
) -> None:
    long = repeated(trace, 20)
    page = open_page(demo.show("long", long, state="done"), width=width, height=height)
    page.wait_for_selector(ROUND)
    assert page.locator(BESIDE).count() == 0
    for part in PARTS:
        seek(page, part * sum(map(events_of, long.rounds)))
        page.locator(f"{ROUND} [data-place]").last.click()
        next_frame(page)
        assert_beside(page, ".rounds .selected")
        page.keyboard.press("Escape")
        next_frame(page)
        assert page.locator(BESIDE).count() == 0
        page.locator('[data-testid="text-pane"] [data-at]').last.click()
        next_frame(page)
        assert_beside(page, ".text-pane .selected")
        page.click(f"{BESIDE} [aria-label='Previous token']")
        next_frame(page)
        assert_beside(page, ".selected")
        page.click(f"{BESIDE} [aria-label='Close']")
        next_frame(page)
        assert page.locator(BESIDE).count() == 0
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_the_card_covers_no_token(feed: Feed, trace: Trace) -> None:
    page = feed(data_of(trace), width=1440, height=900)
    seek(page, sum(map(events_of, trace.rounds)))
    page.locator(f"{ROUND} [data-place]").first.click()  # far above the end of its pane
    next_frame(page)
    (card,) = frames_of(page, BESIDE)
    assert in_view(page, card)
    panes = frames_of(page, ".text-pane, .rounds")
    assert len(panes) == 2
    assert all(each["bottom"] <= card["top"] for each in panes)


def test_playback_pauses_while_a_card_is_open(feed: Feed, trace: Trace) -> None:
    page = feed(data_of(trace, "recorded", tour="never"))
    page.wait_for_selector(f'{ROUND}[data-index="1"]')
    page.click(f'{ROUND}[data-index="0"] [data-place="0"]')
    next_frame(page)
    cursor = page.input_value('[data-testid="seek"]')
    page.wait_for_timeout(800)
    assert page.input_value('[data-testid="seek"]') == cursor
    page.keyboard.press("Escape")
    page.wait_for_function(
        "cursor => Number(document.querySelector('[data-testid=seek]').value) > cursor",
        arg=int(cursor),
    )


def test_the_wheel_scrolls_the_page_at_the_end_of_a_pane(
    demo: Demo, open_page: Callable[..., Any], trace: Trace
) -> None:
    page = open_page(demo.show("recorded", trace, state="done"), width=1140)
    page.wait_for_selector(ROUND)
    seek(page, sum(map(events_of, trace.rounds)))
    for pane in (".text-pane .scroll", ".rounds .scroll"):
        page.evaluate(TO_THE_TOP)
        (frame,) = frames_of(page, pane)
        page.mouse.move(frame["x"] + 40, frame["y"] + 40)
        page.mouse.wheel(0, 200)
        page.wait_for_function(f"() => {MAIN}.scrollTop > 100")
