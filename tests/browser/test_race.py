"""A race: all lanes and the target alone on one clock, and the chosen lane in the player."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from specviz.figures.metrics import metrics
from specviz.player.replay import comparison_replay_html
from specviz.record.trace import Trace
from tests.browser.conftest import Demo
from tests.browser.reading import ROUND, count_emitted, figure, next_frame, seek
from tests.browser.replay_files import Opener, opener
from tests.player.races import ALONE, SHORT, THRIFTY, WASTEFUL, short, thrifty, tokens_at, wasteful

LANE = '[data-testid="race-lane"]'
RESULT = '[data-testid="race-result"]'
NEWS = '[data-testid="race-news"]'
COUNTS = (
    f"() => [...document.querySelectorAll('{LANE} .count')].map((e) => parseInt(e.textContent))"
)
TIMES = f"() => [...document.querySelectorAll('{LANE} .time')].map((e) => e.dataset.seconds)"
# The colour of the dot beside each lane's name.
DOTS = """() => [...document.querySelectorAll('button.racer')]
  .map((each) => getComputedStyle(each, '::before').borderTopColor)"""
COLOURS = ["rgb(47, 127, 194)", "rgb(209, 147, 47)", "rgb(161, 99, 199)", "rgb(26, 156, 118)"]
# Returns when each row shows its finish, in milliseconds since the start of the race, the time that
# the clock skips in frames longer than half a second, and the longest frame.
WATCH = f"""() => new Promise((done) => {{
  document.querySelector('[data-testid="play"]').click();
  const start = performance.now();
  const seen = new Map();
  let [before, lost, longest] = [start, 0, 0];
  const look = (now) => {{
    lost += Math.max(0, now - before - 500);
    longest = Math.max(longest, now - before);
    before = now;
    document.querySelectorAll('{LANE} .time').forEach((each, row) => {{
      if (each.dataset.seconds && !seen.has(row)) seen.set(row, now - start);
    }});
    if (seen.size === document.querySelectorAll('{LANE}').length)
      done({{came: [...seen], lost, longest}});
    else requestAnimationFrame(look);
  }};
  requestAnimationFrame(look);
}})"""


@pytest.fixture
def open_file(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    with opener(browser, tmp_path) as opened:
        yield opened


def open_race(open_file: Opener, traces: Sequence[Trace], **options: Any) -> Any:
    labels = ["thrifty", "wasteful", "third", "fourth"][: len(traces)]
    return open_file(comparison_replay_html(labels, traces, verdict=""), **options)


def at_second(page: Any, second: float) -> Any:
    seek(page, second)
    return page


def plain_text(page: Any, selector: str) -> str:
    return str(page.text_content(selector)).replace("\u00a0", " ")


def test_one_clock_moves_every_lane(open_file: Opener) -> None:
    lanes = thrifty(), wasteful()
    page = open_race(open_file, lanes)
    for second in (0.0, 0.05, 0.0701, 0.15, 0.2801, 0.3, 0.33, WASTEFUL):
        at_second(page, second)
        alone = min(16, int(second / 0.02 * (1 + 1e-9)))
        assert page.evaluate(COUNTS) == [*(tokens_at(lane, second) for lane in lanes), alone]


def test_only_finished_lanes_show_a_time(open_file: Opener) -> None:
    page = open_race(open_file, (thrifty(), wasteful()))
    assert at_second(page, 0.27).evaluate(TIMES) == ["", "", ""]
    first, second, alone = at_second(page, 0.3).evaluate(TIMES)
    assert (float(first), second, alone) == (pytest.approx(THRIFTY), "", "")
    page.keyboard.press("End")
    next_frame(page)
    found = [float(each) for each in page.evaluate(TIMES)]
    assert found == pytest.approx([THRIFTY, WASTEFUL, ALONE])


@pytest.mark.parametrize(
    ("speed", "slower"), [pytest.param("1/5", 5, marks=pytest.mark.thorough), ("true", 1)]
)
def test_lanes_finish_at_their_recorded_times(open_file: Opener, speed: str, slower: int) -> None:
    page = open_race(open_file, (wasteful(), thrifty(), short()))
    page.select_option('[data-testid="speed"]', speed)
    at_second(page, 0.0)
    due = [1000 * slower * each for each in (WASTEFUL, THRIFTY, SHORT, ALONE)]
    seen = page.evaluate(WATCH)
    finishes = sorted(seen["came"], key=lambda each: (each[1], due[each[0]]))
    assert [row for row, _ in finishes] == [2, 1, 3, 0]  # although one frame may draw two
    tolerance = seen["lost"] + 3 * seen["longest"] + 300
    for row, moment in finishes:
        # Never early; a busy machine may be late.
        assert due[row] - 60 <= moment <= due[row] + tolerance
    assert page.inner_text('[data-testid="play"]') == "Replay"


def test_a_race_starts_automatically_at_a_watchable_speed(open_file: Opener) -> None:
    page = open_race(open_file, (thrifty(), wasteful()))
    assert page.inner_text('[data-testid="play"]') == "Pause"
    assert page.input_value('[data-testid="speed"]') == "1/25"


def test_the_chosen_lane_is_shown_in_the_player(open_file: Opener) -> None:
    lanes = thrifty(), wasteful()
    page = at_second(open_race(open_file, lanes), 0.145)
    for place, name in ((0, "thrifty"), (1, "wasteful"), (0, "thrifty")):
        page.click(f"role=radio[name=/{name}/]")
        next_frame(page)
        assert count_emitted(page) == tokens_at(lanes[place], 0.145)
        assert figure(page, "tau") == pytest.approx(metrics(lanes[place]).tau, rel=1e-3)
        assert page.get_attribute(LANE + f" >> nth={place}", "data-chosen") == "true"
        assert f"of {len(lanes[place].rounds)}" in page.inner_text(".where")
    assert page.evaluate(COUNTS)[1] == tokens_at(lanes[1], 0.145)  # the clock did not move


def test_a_lane_is_chosen_by_the_keyboard(open_file: Opener) -> None:
    page = at_second(open_race(open_file, (thrifty(), wasteful(), short())), 0.1)
    page.focus("role=radio[checked=true]")
    for key, name in (("ArrowDown", "wasteful"), ("ArrowUp", "thrifty"), ("ArrowLeft", "third")):
        page.keyboard.press(key)
        next_frame(page)
        checked = page.locator("role=radio[checked=true]")
        assert name in checked.inner_text()
        assert checked.evaluate("each => each === document.activeElement")
    assert page.get_attribute(f"{ROUND} >> nth=0", "data-index") == "0"


def test_the_fastest_is_named_when_all_have_finished(open_file: Opener) -> None:
    page = at_second(open_race(open_file, (thrifty(), wasteful())), 0.4)
    assert page.inner_text(RESULT) == ""
    assert plain_text(page, NEWS) == "target alone finished after 320 ms."
    page.keyboard.press("End")
    next_frame(page)
    assert page.inner_text(RESULT) == "In these recordings thrifty is the fastest."
    assert page.locator(".first:visible").count() == 1
    assert page.locator(LANE).nth(0).locator(".first").is_visible()
    assert plain_text(page, NEWS).startswith("wasteful finished after 480 ms. In these recordings")


def test_a_close_race_has_no_winner(open_file: Opener) -> None:
    page = at_second(open_race(open_file, (thrifty(drift=1.05), thrifty())), 1.0)
    assert page.inner_text(RESULT) == "These recordings are too close to call."
    assert page.locator(".first:visible").count() == 0


def test_lanes_of_different_length_are_compared_by_rate(open_file: Opener) -> None:
    page = at_second(open_race(open_file, (wasteful(), short())), 1.0)
    assert page.evaluate(COUNTS) == [16, 8]
    assert page.inner_text(RESULT) == (
        "In these recordings wasteful is the fastest, by tokens per second: "
        "the lanes differ in length."
    )


def test_the_page_uses_the_same_component(demo: Demo, open_page: Callable[..., Any]) -> None:
    for name, trace in (("thrifty", thrifty()), ("wasteful", wasteful())):
        demo.show(name, trace)
    page = open_page(f"{demo.url}/?race=thrifty,wasteful")
    page.wait_for_selector(LANE)
    assert page.inner_text('[data-testid="play"]') == "Pause"
    assert at_second(page, 0.2801).evaluate(COUNTS) == [16, 9, 14]


@pytest.mark.parametrize("width", [420, 1440])
@pytest.mark.parametrize("number", [2, 4])
def test_lanes_have_separate_rows(open_file: Opener, width: int, number: int) -> None:
    lanes = (thrifty(), wasteful(), short(), wasteful())[:number]
    page = at_second(open_race(open_file, lanes, width=width), 0.2)
    assert page.locator(LANE).count() == number + 1
    boxes = [each.bounding_box() for each in page.locator(LANE).all()]
    assert all(a["y"] + a["height"] <= b["y"] + 1 for a, b in pairwise(boxes))
    assert page.evaluate(DOTS) == COLOURS[:number]
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.is_hidden('[data-testid="lanes"]')


def test_with_reduced_motion_nothing_starts_and_whole_rounds_appear(open_file: Opener) -> None:
    page = open_race(open_file, (thrifty(), wasteful()), reduced_motion="reduce")
    next_frame(page)
    assert page.inner_text('[data-testid="play"]') == "Replay"
    assert page.evaluate(COUNTS) == [16, 16, 16]
    at_second(page, 0.1)
    assert page.locator(f'{ROUND} [data-state="drafted"]').count() == 0
    assert count_emitted(page) == tokens_at(thrifty(), 0.1)
