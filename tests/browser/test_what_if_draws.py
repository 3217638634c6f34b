"""What-if draws on the verdict card: keys, dragging, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specviz.record.trace import Candidate, Trace
from tests.browser.conftest import Server, wait_for_pair
from tests.browser.reading import ROUND, next_frame
from tests.browser.verdict_cards import (
    BACK,
    CARD,
    DRAW,
    INVITATION,
    WHAT_IF,
    choose,
    current_draw,
    first_rejected,
    page,
    plain_text,
    rejections,
    trace,
)

__all__ = ["page", "trace"]  # fixtures


@pytest.fixture
def failed(page: Any, trace: Trace) -> Candidate:
    """A rejected candidate, shown on the card; not the last of its round."""
    entry = next(
        r
        for r in rejections(trace)
        if 0.2 < r.candidates[first_rejected(r)].odds < 0.8
        and first_rejected(r) < r.num_drafted - 1
    )
    choose(page, trace, entry.index, first_rejected(entry))
    return entry.candidates[first_rejected(entry)]


def expected_verdict(candidate: Candidate, uniform: float) -> str:
    return "accepted" if uniform * candidate.draft_prob < candidate.target_prob else "rejected"


def test_keys_flip_the_verdict_at_the_odds(page: Any, failed: Candidate) -> None:
    page.focus(DRAW)
    steps = int((failed.uniform - failed.odds) / 0.01) + 3
    draws = []
    for key in (*["ArrowLeft"] * steps, "PageUp", "PageDown", "End", "ArrowDown", "Home"):
        page.keyboard.press(key)
        draws.append(current_draw(page))
    values = [value for value, _ in draws]
    stepped = [failed.uniform - 0.01 * (step + 1) for step in range(steps)]
    assert values[:steps] == pytest.approx(stepped)
    assert values[steps] == pytest.approx(stepped[-1] + 0.1)
    last = 1 - 2**-24
    assert values[-3:] == [last, pytest.approx(last - 0.01), 0]
    verdicts = [verdict for _, verdict in draws]
    assert {"accepted", "rejected"} == set(verdicts[:steps])
    assert verdicts == [expected_verdict(failed, value) for value in values]


def test_keys_of_one_frame_all_count(page: Any, failed: Candidate) -> None:
    page.eval_on_selector(
        DRAW,
        """(handle) => { for (let i = 0; i < 5; i++) handle.dispatchEvent(
          new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true})); }""",
    )
    assert current_draw(page)[0] == pytest.approx(failed.uniform - 0.05)


def test_dragging_flips_it_at_the_odds(page: Any, failed: Candidate) -> None:
    track = page.locator(f"{CARD} .vd-track")
    track.scroll_into_view_if_needed()
    box = track.bounding_box()
    height = box["y"] + box["height"] / 2
    edge = box["x"] + failed.odds * box["width"]
    page.mouse.move(box["x"] + failed.uniform * box["width"], height)
    page.mouse.down()
    draws = []
    for pixels in (40, 3, 1.5, -1.5, -3, -40, -1.5, 1.5):
        page.mouse.move(edge + pixels, height)
        draws.append(current_draw(page))
    page.mouse.up()
    verdicts = [verdict for _, verdict in draws]
    assert verdicts == ["rejected"] * 3 + ["accepted"] * 4 + ["rejected"]
    assert verdicts == [expected_verdict(failed, value) for value, _ in draws]
    assert draws[0][0] == pytest.approx(failed.odds + 40 / box["width"], abs=2 / box["width"])


def test_the_card_describes_the_what_if(page: Any, failed: Candidate) -> None:
    page.focus(DRAW)
    page.keyboard.press("Home")
    next_frame(page)
    assert plain_text(page, WHAT_IF) == (
        "With a draw of 0.00 it would have been accepted, "
        "and the next candidate would have been tested."
    )
    page.keyboard.press("End")
    next_frame(page)
    assert plain_text(page, WHAT_IF).endswith("it would still have been rejected.")
    assert failed.verdict == "rejected"


def test_a_changed_verdict_without_a_fork_says_why(page: Any, failed: Candidate) -> None:
    barrier = page.get_by_test_id("no-fork")
    page.focus(DRAW)
    page.keyboard.press("End")
    next_frame(page)
    assert barrier.is_hidden()  # still rejected
    page.keyboard.press("Home")
    next_frame(page)
    assert barrier.is_visible()
    assert failed.verdict == "rejected"


# Which of the two the card shows, read at once: the page may load the pair meanwhile.
OFFERED = """() => ['fork-here', 'no-fork'].filter((each) =>
  document.querySelector(`[data-testid=${each}]`)?.checkVisibility())"""


@pytest.mark.thorough  # the player alone shows either; a payload says which
def test_a_first_visit_offers_a_fork_of_the_recorded_run_or_says_why_not(
    server: Server, open_page: Callable[..., Any], trace: Trace
) -> None:
    first = open_page(server.url)
    wait_for_pair(first)  # it may draw the page again
    first.wait_for_selector(ROUND)
    entry = rejections(trace)[0]
    choose(first, trace, entry.index, first_rejected(entry))
    assert first.evaluate(OFFERED) == []  # the real draw changes nothing
    first.locator(DRAW).press("Home")
    assert current_draw(first) == (0.0, "accepted")
    first.wait_for_function(f"({OFFERED})().length === 1")


def test_back_to_the_real_draw(page: Any, failed: Candidate) -> None:
    assert page.is_hidden(BACK)
    page.focus(DRAW)
    page.keyboard.press("Home")
    next_frame(page)
    page.click(BACK)
    assert current_draw(page) == (failed.uniform, "rejected")
    assert page.is_hidden(BACK)
    assert plain_text(page, WHAT_IF) == INVITATION


def test_another_token_shows_its_own_draw(page: Any, trace: Trace, failed: Candidate) -> None:
    page.focus(DRAW)
    page.keyboard.press("Home")
    next_frame(page)
    page.click(f"{CARD} [aria-label='Next token']")
    value, _ = current_draw(page)
    assert value != failed.uniform
    assert value in {each.uniform for entry in trace.rounds for each in entry.candidates}
    assert page.is_hidden(BACK)
