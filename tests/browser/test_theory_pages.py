"""The theory pages in a browser: direct links, text sizes, axe-core, width, slider latency."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from specviz.ui.shell import PAGES
from tests.browser.conftest import Server
from tests.browser.reading import at_rest, set_slider, wait_for_script
from tests.browser.test_access import serious_violations
from tests.browser.test_text_size import assert_readable
from tests.browser.time_bounds import Machine

THEORY = tuple(each.name for each in PAGES if each.group == "Theory")
# The page with most controls and the one with runs are in every check; the others are thorough.
DIRECT = [
    pytest.param(each, marks=() if each == "bias" else pytest.mark.thorough) for each in THEORY
]
# Further views of a page, by link.
VIEWS: dict[str, tuple[str, ...]] = {
    "speed": ("speed_tab=Over α and c", "speed_tab=Tokens a round",
              "speed_tab=When to stop", "speed_tab=What papers measured"),
    "rejections": ("rejections_tab=Several drafts", "rejections_tab=On the real pair",
                   "rejections_tab=At one place", "rejections_tab=The bound"),
    "bias": ("bias_section=Whole blocks", "bias_section=Several drafts", "bias_section=Your runs"),
    "misleading": ("misleading_tab=Mean and tail", "misleading_tab=Batch and context",
                   "misleading_tab=This machine's batch", "misleading_tab=Temperature",
                   "misleading_tab=Estimating α"),
    "claims": ("claims_tab=Theorems on the real pair",),
}  # fmt: skip
CHARTED = ("speed", "rejections", "bias", "misleading")
# Streamlit draws the page list of narrow pages in the sidebar; its markup is not ours.
STREAMLIT_S_OWN = '[data-testid^="stSidebarNav"]'
MAIN = '[data-testid="stMain"]'
CHART = '[data-testid="stPlotlyChart"] .main-svg'
PLOTTED = ".js-plotly-plot text"
# The sentence under a paused or finished simulation.
PAUSED = "text=/is paused\\.|paused before|stopped because|Paused after/"
UPDATE_SECONDS = 1.0


def cut_off(page: Any) -> list[str]:
    """Return elements that extend beyond the right edge and do not scroll."""
    return page.evaluate(
        "() => [...document.querySelectorAll('[data-testid=stMain] *')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1"
        " && !e.matches('input[type=range]')"
        " && !e.closest('[data-testid=stPlotlyChart], .katex-display, [data-testid=stTable],"
        " [data-testid=stDataFrame], [role=tablist], [data-testid=stTabs]'))"
        ".map(e => e.outerHTML.slice(0, 200))"
    )


@pytest.mark.parametrize("name", DIRECT)
def test_a_page_is_complete_from_a_direct_link(
    server: Server, open_page: Callable[..., Any], name: str
) -> None:
    page = open_page(f"{server.url}/{name}")
    wait_for_script(page)
    if name in CHARTED:
        page.wait_for_selector(CHART)
        page.wait_for_selector(PLOTTED)
        page.wait_for_selector(".katex", state="attached")  # Streamlit loads it on demand
    assert page.get_by_text("Theory", exact=True).first.is_visible()
    assert page.locator('[data-testid="stException"], .katex-error').count() == 0
    pause = page.locator(f"[class*=st-key-{name}_pause] label")
    if pause.count():  # fragments fade briefly while they are redrawn
        pause.first.click()
        page.locator(PAUSED).first.wait_for()
    at_rest(page)
    assert_readable(page)
    assert serious_violations(page) == []
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 420, "height": 860})
    at_rest(page)
    expect_narrow(page)


def expect_narrow(page: Any) -> None:
    """Assert that nothing is cut off on a phone, and that axe-core finds nothing."""
    page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth")
    at_rest(page)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert cut_off(page) == []
    page.evaluate("own => document.querySelectorAll(own).forEach(e => e.remove())", STREAMLIT_S_OWN)
    assert serious_violations(page) == []


@pytest.mark.parametrize(
    "size",
    [pytest.param((1440, 900), marks=pytest.mark.thorough), (420, 860)],
    ids=["wide", "phone"],
)
def test_the_card_of_a_symbol_opens_by_keyboard_inside_the_window(
    server: Server, open_page: Callable[..., Any], size: tuple[int, int]
) -> None:
    page = open_page(f"{server.url}/speed")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    symbols = page.locator(f"{MAIN} .symbol")
    symbols.first.wait_for()
    at_rest(page)
    assert [each.partition(",")[0] for each in symbols.evaluate_all(
        "all => all.map(each => each.ariaLabel)"
    )] == ["α", "c", "v", "γ"]  # fmt: skip
    for place in range(symbols.count()):
        card = symbols.nth(place).locator(".symbol-card")
        assert not card.is_visible()
        symbols.nth(place).focus()
        box = card.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
        assert box["y"] + box["height"] <= size[1]
    page.keyboard.press("Tab")  # to the link within the card, which stays open
    card = symbols.last.locator(".symbol-card")
    assert card.is_visible()
    assert card.locator("a").get_attribute("href") == "docs?chapter=figures#symbols"


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "links"), VIEWS.items(), ids=VIEWS)
def test_further_views_are_accessible(
    untouched: Server, open_page: Callable[..., Any], name: str, links: tuple[str, ...]
) -> None:
    for place, link in enumerate(links):
        key, _, value = link.partition("=")
        paused = {f"{name}_pause": "true"} if name in ("rejections", "bias") else {}
        scheme = ("light", "dark")[place % 2]
        query = urlencode({key: value, **paused})
        page = at_rest(open_page(f"{untouched.url}/{name}?{query}", scheme=scheme))
        page.get_by_text(value, exact=True).locator("visible=true").first.wait_for()
        assert page.locator('[data-testid="stException"], .katex-error').count() == 0
        assert serious_violations(page) == [], value
        if place == len(links) - 1:  # the test above checks the first tab on a phone
            page.set_viewport_size({"width": 420, "height": 860})
            expect_narrow(page)
        page.close()


@pytest.mark.alone
def test_a_slider_updates_the_page_at_once(
    untouched: Server, open_page: Callable[..., Any], machine: Machine
) -> None:
    page = open_page(f"{untouched.url}/speed")
    page.wait_for_selector(CHART)
    at_rest(page)
    durations = []
    for presses, alpha in ((-5, "0.65"), (5, "0.7"), (-5, "0.65")):
        durations.append(update_seconds(page, presses, f"acceptance rate α {alpha},"))
        if durations[-1] < 2 * UPDATE_SECONDS:
            break
        at_rest(page)
    seconds = ", ".join(f"{each:.2f}" for each in durations)
    print(f"the page answers a slider after {seconds} s (bound {UPDATE_SECONDS})")
    assert min(durations) < machine.allowed(UPDATE_SECONDS)


def update_seconds(page: Any, presses: int, sentence: str) -> float:
    """Return the seconds from the first key press to the sentence below the sliders."""
    assert sentence not in page.inner_text(MAIN)
    began = time.perf_counter()
    set_slider(page, "speed_alpha", presses)
    page.wait_for_function(
        "([main, words]) => document.querySelector(main).innerText.includes(words)",
        arg=[MAIN, sentence],
    )
    return time.perf_counter() - began


WEIGHT = "each => getComputedStyle(each).fontWeight"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("path", "marked"),
    [("bias", "Section"), pytest.param("watch", "Link", marks=pytest.mark.thorough)],
)
def test_the_menu_marks_the_open_page(
    server: Server, open_page: Callable[..., Any], path: str, marked: str
) -> None:
    """Streamlit marks neither a menu nor the first page by its name."""
    page = at_rest(open_page(f"{server.url}/{path}"))
    weights = {
        part: page.locator(f'[data-testid="stTopNav{part}"]').first.evaluate(WEIGHT)
        for part in ("Section", "Link")
    }
    assert [part for part, weight in weights.items() if weight == "600"] == [marked]
