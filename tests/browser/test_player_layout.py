"""No overlapping elements in the player: on a phone, on a projector, with forks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.browser.fed_player import Feed, data_of, feed
from tests.browser.long_runs import recorded
from tests.browser.reading import next_frame, seek

__all__ = ["feed"]  # a fixture

BOXES = """() => {
    const box = (each) => each.getBoundingClientRect().toJSON();
    const all = (name) => [...document.querySelectorAll(name)].filter((each) => each.offsetParent);
    return Object.fromEntries(%s.map((name) => [name, all(name).map(box)]));
}"""
PHONE = 420


def boxes(page: Any, *names: str) -> list[list[dict[str, float]]]:
    """Return the boxes of visible elements."""
    found = page.evaluate(BOXES % list(names))
    return [found[name] for name in names]


def test_on_a_phone_the_controls_are_in_rows(feed: Feed) -> None:
    page = feed(data_of(recorded()), width=PHONE)
    seek(page, 60)
    page.evaluate("() => { document.querySelector('.link-box').hidden = false; }")
    buttons, (where,), (speed,), (link,) = boxes(
        page,
        ".controls .buttons > button, .controls .until summary",
        ".where",
        ".speed",
        ".link-box",
    )
    assert len(buttons) == 6
    assert len({round(each["top"]) for each in buttons}) == 1
    assert where["right"] <= speed["left"]
    assert speed["right"] <= link["left"]
    page.click(".keys summary")
    ((keys,),) = boxes(page, ".keys dl")
    assert keys["left"] >= 0
    assert keys["right"] <= PHONE
    page.click(".link-box summary")
    ((card,),) = boxes(page, ".link-card")
    assert card["left"] >= 0
    assert card["right"] <= PHONE


@pytest.mark.parametrize("width", [1440, PHONE])
def test_fork_buttons_are_beside_the_numbers(feed: Feed, width: int) -> None:
    trace = replace(recorded(), config=replace(recorded().config, temperature=0.0))
    data = data_of(trace)
    page = feed({**data, "run": {**data["run"], "forkable": True}}, width=width, height=900)
    seek(page, 40)
    page.click("[data-testid=token][data-state=rejected] >> nth=-1")
    next_frame(page)
    picks, (card,), bars, rows = boxes(
        page, ".vd-pick", "[data-testid=verdict-card]", ".vd-bar", ".vd-of-target li"
    )
    assert picks
    assert max(each["right"] for each in picks) <= card["right"]
    assert len({round(each["width"]) for each in bars}) == 1  # one scale
    assert {round(each["height"]) for each in rows} == {20}
    values = page.evaluate(
        "() => [...document.querySelectorAll('.vd-pick')].filter((each) => each.offsetParent)"
        ".map((each) => each.previousSibling.getBoundingClientRect().right)"
    )
    assert all(value <= pick["left"] for value, pick in zip(values, picks, strict=True))


def test_on_a_projector_the_rows_of_the_three_columns_align(feed: Feed) -> None:
    page = feed(data_of(recorded()), width=1440, height=900)
    seek(page, 60)
    page.keyboard.press("p")
    page.wait_for_selector("html[data-presenting]")
    next_frame(page)
    (heads, lists) = boxes(page, ".vd-columns h4", ".vd-columns ol")
    assert len(heads) == len(lists) == 3
    assert len({round(each["top"]) for each in lists}) == 1
