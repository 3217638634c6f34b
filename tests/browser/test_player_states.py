"""The player's texts, lanes and pace in each state of a run."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest

from specviz.player.payload import JsonObject
from specviz.player.racing import race_payload
from specviz.record.trace import RunConfig, Trace
from tests.browser.fed_player import (
    AHEAD,
    LANES,
    LIVE,
    NOTE,
    RACE,
    RESULT,
    SEEK,
    SPEED,
    Feed,
    data_of,
    feed,
    in_state,
    making,
    remove_player,
    words,
)
from tests.browser.long_runs import events_of, recorded
from tests.browser.reading import ROUND, TOUR, next_frame, seek, settled_box, tour_to_question
from tests.player.races import thrifty, wasteful
from tests.traces import make_round, make_trace

__all__ = ["feed"]  # a fixture

END = "<|endoftext|>"

# The text size of each kind of element with text.
SIZES = """() => Object.fromEntries([...document.querySelectorAll('.sv *')]
  .filter((each) => each.firstChild?.nodeType === Node.TEXT_NODE)
  .map((each) => [`${each.parentElement.getAttribute('class')} ${each.getAttribute('class')}`,
    parseFloat(getComputedStyle(each).fontSize)]))"""


# Lanes


def timed(speculative: float, target: float, *, is_open: bool) -> JsonObject:
    """Return a payload with one round and these times in seconds."""
    lanes = {
        "speculative": [{"draft": 0, "verify": speculative, "other": 0}],
        "target": [target],
        "open": is_open,
    }
    return data_of(make_trace(["r"]), lanes=lanes)


@pytest.mark.parametrize(
    ("speculative", "target", "expected"),
    [
        (0.545, 0.782, "speculative 545 ms, target alone 782 ms: 237 ms sooner"),
        (
            0.782,
            0.545,
            "speculative 782 ms, target alone 545 ms: 237 ms later: no speedup",
        ),
        (0.545, 2.5, "speculative 0.55 s, target alone 2.50 s: 1.95 s sooner"),
    ],
)
def test_the_lanes_show_both_times_in_one_unit(
    feed: Feed, speculative: float, target: float, expected: str
) -> None:
    page = feed(timed(speculative, target, is_open=False))
    assert words(page, RESULT) == expected
    assert page.eval_on_selector(RESULT, "e => getComputedStyle(e).fontWeight") == "600"


def test_a_close_call_has_no_winner(feed: Feed) -> None:
    page = feed(timed(0.782, 0.545, is_open=True))
    assert words(page, RESULT) == "speculative 782 ms, target alone 545 ms (too close to call)"
    assert page.eval_on_selector(RESULT, "e => getComputedStyle(e).fontWeight") == "400"


@pytest.mark.parametrize(
    ("state", "note"),
    [
        ("running", "measured after the run"),
        ("stopped", "not measured: the run was stopped or failed"),
        ("failed", "not measured: the run was stopped or failed"),
        ("recorded", "not measured"),
    ],
)
def test_why_the_target_alone_is_missing(feed: Feed, state: str, note: str) -> None:
    page = feed(data_of(recorded(), state, lanes=None))
    assert words(page, NOTE) == note


# States


def test_the_live_mark_disappears_when_the_run_ends(feed: Feed) -> None:
    whole = data_of(recorded())
    page = feed(making(whole))
    assert page.is_visible(LIVE)
    page.click(LIVE)
    next_frame(page)
    assert page.is_hidden(LIVE)
    page.click('[data-testid="play"]')
    next_frame(page)
    assert page.is_visible(LIVE)
    feed(in_state(whole, "done", growing=True), page)  # the forecast is still pending
    assert page.is_hidden(LIVE)


# The number of rounds shown so far; the first of them may have left the page.
SHOWN = f"(1 + Number([...document.querySelectorAll('{ROUND}')].at(-1)?.dataset.index ?? -1))"

# The seconds until so many more rounds are shown.
MORE_ROUNDS = f"""(more) => new Promise((done, fail) => {{
  const began = performance.now(), shown = () => {SHOWN};
  const before = shown();
  let frames = 0;
  setTimeout(() => fail(Error(
    `${{shown() - before}} of ${{more}} rounds in ${{frames}} frames, ${{document.visibilityState}}`
    + `, at ${{document.querySelector('{SEEK}').value}}`)), 60000);
  (function look() {{
    frames += 1;
    if (shown() < before + more) requestAnimationFrame(look);
    else done((performance.now() - began) / 1000);
  }})();
}})"""


def test_a_fast_run_plays_at_a_readable_pace_to_its_end(feed: Feed) -> None:
    whole = data_of(recorded())
    total = whole["rounds"]["total"]
    page = feed(making(whole))
    seconds = page.evaluate(MORE_ROUNDS, 6)
    shown, ahead = page.evaluate(
        f"[{SHOWN}, document.querySelector('{AHEAD}').innerText.replaceAll('\\u00a0', ' ')]"
    )
    assert seconds > 1.0  # three rounds a second; one frame may draw two
    assert f"decoder {total - shown} rounds ahead" in ahead
    feed(in_state(whole, "done", growing=False), page)
    page.wait_for_selector(f'{AHEAD}:has-text("all decoded")')
    page.evaluate(MORE_ROUNDS, 1)
    assert page.evaluate(SHOWN) < total
    page.click(LIVE)
    next_frame(page)
    assert page.is_hidden(AHEAD)
    assert page.input_value(SEEK) == page.get_attribute(SEEK, "max")


def test_the_first_round_of_a_live_run_is_shown_at_once(feed: Feed) -> None:
    page = feed(making(data_of(recorded())))
    assert page.locator(ROUND).count() >= 1
    assert page.locator(f"{ROUND} [data-testid=token]").count() >= 2


# All cursor positions in the next seconds.
PLACES = """(seconds) => new Promise(done => {
  const seen = new Set(), seek = document.querySelector('[data-testid="seek"]');
  const began = performance.now();
  (function look(now) {
    seen.add(Number(seek.value));
    if (now - began < 1000 * seconds) requestAnimationFrame(look); else done([...seen]);
  })(began);
})"""


def test_while_decoding_each_round_is_painted_once(feed: Feed) -> None:
    whole = data_of(recorded())
    page = feed(making(whole))
    places = page.evaluate(PLACES, 1)
    rounds = page.locator(ROUND).count()
    assert 2 <= len(places) <= rounds + 2
    ends = {0, *accumulate(events_of(each) for each in recorded().rounds)}
    assert ends.issuperset(places)
    feed(in_state(whole, "done", growing=False), page)
    later = page.evaluate(PLACES, 1)
    assert len(ends.intersection(later)) < len(later) / 2  # now token by token


def test_a_replaced_player_goes_on_with_a_run_that_it_had_caught_up_with(feed: Feed) -> None:
    whole = data_of(recorded())
    first = {**whole["rounds"], "items": whole["rounds"]["items"][:2], "total": 2}
    begun = {**making(whole), "rounds": first}
    page = feed(begun)
    page.wait_for_function(f"(({{value, max}}) => value === max)(document.querySelector('{SEEK}'))")
    at = int(page.input_value(SEEK))
    remove_player(page)
    feed(begun, page)
    assert int(page.input_value(SEEK)) == at
    feed(making(whole), page)
    page.wait_for_function(f"Number(document.querySelector('{SEEK}').value) > {at}")


def test_pausing_and_stepping_behind_the_decoder(feed: Feed) -> None:
    whole = data_of(recorded())
    first = {**whole["rounds"], "items": whole["rounds"]["items"][:20], "total": 20}
    page = feed({**making(whole), "rounds": first})
    page.evaluate(MORE_ROUNDS, 1)
    page.click('[data-testid="play"]')
    next_frame(page)
    at, ahead = int(page.input_value(SEEK)), words(page, AHEAD)
    page.evaluate(f"document.querySelector('{AHEAD}').firstChild.isKept = true")
    feed(making(whole), page)
    page.wait_for_timeout(600)
    assert int(page.input_value(SEEK)) == at
    assert words(page, AHEAD) != ahead  # the decoder continued
    assert page.evaluate(f"document.querySelector('{AHEAD}').firstChild.isKept")  # see setText
    page.keyboard.press("ArrowRight")
    next_frame(page)
    assert int(page.input_value(SEEK)) == at + 1
    page.fill(SEEK, "3")
    next_frame(page)
    assert int(page.input_value(SEEK)) == 3
    page.click('[data-testid="play"]')
    page.wait_for_function(f"Number(document.querySelector('{SEEK}').value) > 3")
    assert page.is_visible(AHEAD)


def test_the_readable_pace_with_reduced_motion_shows_whole_rounds(feed: Feed) -> None:
    whole = data_of(recorded())
    page = feed(making(whole))
    page.emulate_media(reduced_motion="reduce")
    feed(in_state(whole, "done", growing=False), page)
    next_frame(page)
    places = page.evaluate(PLACES, 1.5)
    assert 2 <= len(places) <= 8


@pytest.mark.parametrize("width", [1140, 700, 380])
def test_the_decoder_status_fits(feed: Feed, width: int) -> None:
    page = feed(making(data_of(recorded())), width=width)
    where, ahead = (page.locator(each).bounding_box() for each in (".where", AHEAD))
    speed = page.locator(SPEED).bounding_box()
    assert speed["x"] + speed["width"] <= width
    if width > 700:
        assert where["x"] + where["width"] <= ahead["x"] or ahead["y"] >= where["y"] + 10
    else:
        assert where is None  # replaced by the decoder's status
    assert ahead["x"] + ahead["width"] <= speed["x"] or ahead["y"] >= speed["y"] + 10


def test_the_chosen_pace_is_kept_for_the_next_run(feed: Feed) -> None:
    page = feed(making(data_of(recorded())))
    assert page.input_value(SPEED) == "readable"
    page.select_option(SPEED, "now")
    other = making(data_of(recorded()))
    feed({**other, "run": {**other["run"], "id": "next"}}, page)
    assert page.input_value(SPEED) == "now"
    assert page.input_value(SEEK) == page.get_attribute(SEEK, "max")


def test_rounds_of_a_conversation_have_one_number_everywhere(feed: Feed) -> None:
    data = data_of(recorded())
    for index, item in enumerate(data["rounds"]["items"]):
        item["number"] = index + 18
    page = feed(data)
    page.evaluate("document.querySelector('[data-testid=seek]').focus()")
    page.keyboard.press("End")
    next_frame(page)
    last = 17 + len(data["rounds"]["items"])
    assert page.inner_text(".where") == f"round {last} of {last}"
    assert page.locator(f"{ROUND} .number").last.inner_text() == str(last)
    chip = page.locator('.rounds .chip[data-state="rejected"]').last
    number = chip.locator("xpath=ancestor::*[@data-index]").locator(".number").inner_text()
    chip.click()
    next_frame(page)
    assert f"round {number}, " in page.inner_text('[data-testid="verdict-card"] h3')


def test_a_slow_run_is_followed_live(feed: Feed) -> None:
    data = making(data_of(recorded()))
    for item in data["rounds"]["items"]:
        item["times"]["verify"] = 0.3
    page = feed(data)
    assert page.input_value(SPEED) == "now"
    assert page.is_hidden(AHEAD)


@pytest.mark.parametrize(
    ("state", "grey"), [("loading", True), ("queued", True), ("stopped", False), ("failed", False)]
)
def test_only_a_pending_run_greys_the_player(feed: Feed, state: str, grey: bool) -> None:
    page = feed(in_state(data_of(recorded()), state, growing=False, waiting=True))
    filtered = page.eval_on_selector(
        '[data-testid="player"]', "e => getComputedStyle(e).filter !== 'none'"
    )
    assert filtered == grey


# A race


def shown(page: Any, *selectors: str) -> list[bool]:
    return [page.is_visible(each) for each in selectors]


def test_a_single_run_replaces_a_race(feed: Feed) -> None:
    page = feed(race_payload(["one", "two"], [thrifty(), wasteful()]))
    assert shown(page, RACE, LANES) == [True, False]
    feed(data_of(recorded()), page)
    assert shown(page, RACE, LANES) == [False, True]
    assert page.input_value('[data-testid="speed"]') == "1"
    assert page.eval_on_selector(".sv .page", "e => e.firstChild.className") == "sum"


def test_the_same_race_sent_again_continues(feed: Feed) -> None:
    data = race_payload(["one", "two"], [thrifty(), wasteful()])
    page = feed(data)
    page.click("role=radio[name=/two/]")
    seek(page, 0.1)
    feed(data, page)
    assert page.get_attribute("role=radio[name=/two/]", "aria-checked") == "true"
    assert float(page.input_value('[data-testid="seek"]')) == pytest.approx(0.1)


# Text


def ended() -> Trace:
    """Return a run with text after its end-of-text token."""
    entry = make_round("aaa")
    end = replace(entry.candidates[0], text=END)
    return make_trace([replace(entry, candidates=(end, *entry.candidates[1:])), "aaa"])


def test_an_end_of_text_token_is_a_mark_and_a_line_break(feed: Feed) -> None:
    page = feed(data_of(ended()))
    mark, after = page.query_selector_all(
        '[data-testid="text-pane"] .word:not([data-state="prompt"])'
    )[:2]
    assert (mark.text_content(), mark.get_attribute("title")) == (END, END)
    shown = mark.evaluate("e => getComputedStyle(e, '::before').content")
    assert "end of text" in shown
    assert after.bounding_box()["y"] > mark.bounding_box()["y"]


def test_a_special_token_is_named_everywhere(feed: Feed) -> None:
    data = data_of(ended())
    insight = {"draft": 0.5, "target": 0.25, "draft_entropy": 1, "target_entropy": 1}
    tops = {f"{column}_top": [[END, 0.5]] for column in ("draft", "target", "residual")}
    data["rounds"]["items"][0]["candidates"][0]["insight"] = insight | tops
    page = feed(data)
    page.click('[data-testid="round"][data-index="0"] [data-place="0"]')
    next_frame(page)
    columns = [f".vd-of-{column} li span" for column in ("draft", "target", "rest")]
    for part in (".rounds .chip", ".vd-say q", *columns):
        shown = page.locator(f"{part}[data-special]").first
        assert shown.get_attribute("data-special") == "end of text"
        assert (shown.text_content(), shown.get_attribute("title")) == (END, END)
        assert shown.evaluate("e => getComputedStyle(e, '::before').content") == '"end of text"'
    others = page.locator(".rounds .chip:not([data-special])")
    assert others.count() == page.locator(".rounds .chip").count() - 1


@pytest.mark.parametrize("width", [1140, pytest.param(420, marks=pytest.mark.thorough)])
def test_the_users_text_size_is_respected(feed: Feed, width: int) -> None:
    usual = feed(data_of(recorded()), width=width).evaluate(SIZES)
    large = feed(data_of(recorded()), width=width, root="20px")
    sizes = large.evaluate(SIZES)
    assert usual
    for name, size in usual.items():
        assert sizes[name] == pytest.approx(1.25 * size), name
    assert large.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


# The tour


def test_the_question_does_not_cover_its_row(feed: Feed) -> None:
    entry = make_round("r")
    wordy = replace(entry.candidates[0], text="verylong" * 20)  # no space beside the row
    trace = make_trace([replace(entry, candidates=(wordy,))], config=RunConfig(gamma=1))
    page = feed(data_of(trace, "recorded", tour="force"), width=420)
    tour_to_question(page)
    tour = settled_box(page, TOUR)
    row = page.locator('[data-now="true"]').bounding_box()
    assert tour["y"] >= row["y"] + row["height"] or tour["y"] + tour["height"] <= row["y"]
    assert tour["y"] + tour["height"] <= 860
