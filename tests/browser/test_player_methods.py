"""Rounds and verdicts of every speculation method in the player, from real runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Demo
from tests.browser.fed_player import Feed, data_of, feed
from tests.browser.reading import END, ROUND, next_frame, seek
from tests.browser.test_access import serious_violations
from tests.methods import METHODS, method_trace

__all__ = ["feed"]  # a fixture

CARD = '[data-testid="verdict-card"]'


@pytest.fixture
def shown(feed: Feed) -> Callable[..., Any]:
    """Open a finished run of a method."""
    return lambda method: at_first_round(feed(data_of(method_trace(method)), width=1440))


def at_first_round(page: Any) -> Any:
    """Show the end of the run, with its first round in view."""
    page.wait_for_selector(ROUND)
    seek(page, END)
    page.evaluate("document.querySelector('.rounds .scroll').scrollTop = 0")
    next_frame(page)
    return page


def chip(page: Any, index: int, place: int) -> Any:
    return page.locator(f'{ROUND}[data-index="{index}"] [data-place="{place}"]')


def sentence_of(page: Any, index: int, place: int) -> str:
    chip(page, index, place).click()
    next_frame(page)
    return page.inner_text(f"{CARD} .vd-say").replace("\u00a0", " ")


def first(method: str, *verdicts: str) -> tuple[int, int]:
    """Return round and place of the first candidate with one of these fates."""
    return next(
        (entry.index, place)
        for entry in method_trace(method).rounds
        for place, each in enumerate(entry.candidates)
        if each.verdict in verdicts and (method != "drafts" or place < METHODS[method].num_drafts)
    )


def test_a_tree_has_columns_and_arrow_keys_follow_it(shown: Callable[..., Any]) -> None:
    page, entry = shown("tree"), method_trace("tree").rounds[0]
    boxes = [chip(page, 0, place).bounding_box() for place in range(entry.num_drafted)]
    for place, each in enumerate(entry.candidates):
        parent = each.parent if each.parent is not None else -1
        if parent >= 0:
            assert boxes[parent]["x"] + boxes[parent]["width"] < boxes[place]["x"]
            assert boxes[parent]["y"] <= boxes[place]["y"] + 1
    chip(page, 0, 0).focus()
    page.keyboard.press("ArrowRight")
    going = page.evaluate("Number(document.activeElement.dataset.place)")
    assert entry.candidates[going].parent == 0
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("Number(document.activeElement.dataset.place)") == 1


def test_untested_lines_are_hidden(shown: Callable[..., Any]) -> None:
    page = shown("wide")
    row = page.locator(ROUND).first
    folded = row.locator(".node[hidden]").count()
    assert folded > 0
    row.locator(".more-lines").click()
    assert row.locator(".node[hidden]").count() == 0
    assert row.locator(".more-lines").inner_text() == "fewer lines"


STORIES = {
    "block": ("accepted", "Block verification"),
    "coupled": ("rejected", "Both models share the same noise"),
    "match": ("rejected", "The target sampled"),
    "typical": ("accepted", "No draw decides"),
    "drafts": ("rejected", "of 3"),
}


def assert_the_card_explains_the_rule(page: Any, method: str) -> None:
    fate, words = STORIES[method]
    assert words in sentence_of(page, *first(method, fate)), method
    assert page.locator(f'{CARD} [data-testid="race"]').is_visible() == (method == "coupled")
    assert page.locator(f"{CARD} .vd-track").is_visible() == (method in ("block", "drafts"))


def test_what_if_in_block_verification_counts_accepted_tokens(shown: Callable[..., Any]) -> None:
    index, place = first("block", "cut")
    page = shown("block")
    sentence_of(page, index, place)
    page.locator(f"{CARD} [role=slider]").focus()
    page.keyboard.press("Home")
    next_frame(page)
    count = method_trace("block").rounds[index].num_drafted
    many = f"all {count}" if place + 1 == count else f"{place + 1} of {count}"
    assert f"With a draw of 0.00, {many} would" in page.inner_text(f"{CARD} .vd-if")


def test_the_legend_lists_only_occurring_fates(shown: Callable[..., Any]) -> None:
    for method, here, missing in (("block", "cut", "rejected"), ("tree", "rejected", "cut")):
        page = shown(method)
        samples = page.locator(".legend .chip:visible").all_inner_texts()
        assert here in samples
        assert missing not in samples


@pytest.mark.parametrize(
    "method",
    ["tree", *(pytest.param(each, marks=pytest.mark.thorough) for each in ("block", "coupled"))],
)
def test_it_fits_on_a_phone_and_is_accessible(
    demo: Demo, open_page: Callable[..., Any], method: str
) -> None:
    link = demo.show(method, method_trace(method), state="done")
    page = at_first_round(open_page(link, width=420))
    sentence_of(page, 0, 0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious_violations(page) == []


def test_every_method_is_drawn_and_its_rule_explained(feed: Feed) -> None:
    page = None
    for method in METHODS:
        data = data_of(method_trace(method))
        data["run"]["id"] = method
        page = at_first_round(feed(data, page, width=1440))
        rows = len(method_trace(method).rounds)
        assert page.inner_text(".where") == f"round {rows} of {rows}"
        assert page.locator(ROUND).count() > 0
        if method in STORIES:
            assert_the_card_explains_the_rule(page, method)


def test_the_card_says_what_a_head_read(shown: Callable[..., Any]) -> None:
    page, trace = shown("head"), method_trace("head")
    rounds = [entry for entry in trace.rounds if len(entry.candidates) > 1]
    number = rounds[0].index
    assert "The head read the inputs of layers 2, 4 and 5 of the target at" in sentence_of(
        page, number, 0
    )
    assert "then continued from its own state" in sentence_of(page, number, 1)
    for outside in (True, False):
        entry = next(each for each in rounds if each.extra and each.extra.outside is outside)
        said = sentence_of(page, entry.index, len(entry.candidates))
        assert ("could not have been proposed" in said) is outside
