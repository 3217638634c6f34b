"""Rounds and verdicts of every way to speculate, as they are drawn; all of real runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Stand
from tests.browser.reading import END, ROUND, next_frame, seek
from tests.browser.test_access import serious_violations
from tests.methods import WAYS, way_trace

CARD = '[data-testid="verdict-card"]'


@pytest.fixture
def shown(stand: Stand, open_page: Callable[..., Any]) -> Callable[..., Any]:
    """A run of that way at its end, on a page of that width."""

    def show(way: str, width: int = 1440) -> Any:
        page = open_page(stand.show(way, way_trace(way), state="done"), width=width)
        page.wait_for_selector(ROUND)
        seek(page, END)
        page.evaluate("document.querySelector('.rounds .scroll').scrollTop = 0")
        next_frame(page)
        return page

    return show


def chip(page: Any, index: int, place: int) -> Any:
    return page.locator(f'{ROUND}[data-index="{index}"] [data-place="{place}"]')


def said(page: Any, index: int, place: int) -> str:
    chip(page, index, place).click()
    next_frame(page)
    return page.inner_text(f"{CARD} .vd-say").replace("\u00a0", " ")


def first(way: str, *verdicts: str) -> tuple[int, int]:
    """The first candidate of that fate, of several drafts where they begin: round and place."""
    return next(
        (entry.index, place)
        for entry in way_trace(way).rounds
        for place, each in enumerate(entry.candidates)
        if each.verdict in verdicts and (way != "drafts" or place < WAYS[way].num_drafts)
    )


def test_a_tree_stands_in_columns_and_the_arrow_keys_go_along_it(shown: Callable[..., Any]) -> None:
    page, entry = shown("tree"), way_trace("tree").rounds[0]
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


def test_lines_of_which_nothing_was_tested_are_folded_away(shown: Callable[..., Any]) -> None:
    page = shown("wide")
    row = page.locator(ROUND).first
    folded = row.locator(".node[hidden]").count()
    assert folded > 0
    row.locator(".more-lines").click()
    assert row.locator(".node[hidden]").count() == 0
    assert row.locator(".more-lines").inner_text() == "fewer lines"


STORIES = {
    "block": ("accepted", "All are judged together"),
    "coupled": ("rejected", "Both models run the same race"),
    "match": ("rejected", "The target drew a token of its own"),
    "typical": ("accepted", "no draw decides"),
    "drafts": ("rejected", "of 3"),
}


@pytest.mark.parametrize("way", STORIES)
def test_the_card_tells_the_story_of_its_rule(shown: Callable[..., Any], way: str) -> None:
    fate, words = STORIES[way]
    page = shown(way)
    assert words in said(page, *first(way, fate))
    assert page.locator(f'{CARD} [data-testid="race"]').is_visible() == (way == "coupled")
    assert page.locator(f"{CARD} .vd-track").is_visible() == (way in ("block", "drafts"))


def test_judged_together_another_draw_tells_how_many_would_stand(shown: Callable[..., Any]) -> None:
    index, place = first("block", "cut")
    page = shown("block")
    said(page, index, place)
    page.locator(f"{CARD} [role=slider]").focus()
    page.keyboard.press("Home")
    next_frame(page)
    count = way_trace("block").rounds[index].num_drafted
    many = f"all {count}" if place + 1 == count else f"{place + 1} of {count}"
    assert f"With a draw of .00, {many} would" in page.inner_text(f"{CARD} .vd-if")


def test_the_key_to_the_marks_has_what_can_be_seen(shown: Callable[..., Any]) -> None:
    for way, here, missing in (("block", "cut", "rejected"), ("tree", "rejected", "cut")):
        page = shown(way)
        samples = page.locator(".legend .chip:visible").all_inner_texts()
        assert here in samples
        assert missing not in samples


@pytest.mark.parametrize("way", ["tree", "block", "coupled"])
def test_nothing_is_wider_than_a_phone_and_axe_finds_nothing(
    shown: Callable[..., Any], way: str
) -> None:
    page = shown(way, width=420)
    said(page, 0, 0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious_violations(page) == []


def test_every_way_is_drawn_without_a_fault(shown: Callable[..., Any]) -> None:
    for way in WAYS:
        page = shown(way)
        assert page.locator(ROUND).count() > 0
