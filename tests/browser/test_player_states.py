"""The player on a separate page, fed by the test: its texts in each state of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest

from specviz.player.payload import JsonObject, payload_of_trace
from specviz.player.player_source import player_source
from specviz.player.racing import race_payload
from specviz.record.trace import RunConfig, Trace
from tests.browser.long_runs import events_of, recorded, repeated
from tests.browser.reading import ROUND, next_frame, seek
from tests.player.races import thrifty, wasteful
from tests.traces import make_round, make_trace

RESULT = '[data-testid="lanes"] .result'
NOTE = '[data-testid="lanes"] .note >> nth=1'
COUNT = '[data-testid="lanes"] .count >> nth=1'
LANES, RACE = '[data-testid="lanes"]', '[data-testid="race"]'
LIVE = '[data-testid="now"]'
AHEAD, SPEED, SEEK = ('[data-testid="ahead"]', '[data-testid="speed"]', '[data-testid="seek"]')
THROUGHPUT = ".ch-throughput"
TOUR = '[data-testid="tour"]'
END = "<|endoftext|>"

MOUNT = """(data) => {
  const parentElement = document.querySelector('#stage');
  mountPlayer({data, parentElement, setStateValue: () => {}});
}"""

# The text size of each kind of element with text.
SIZES = """() => Object.fromEntries([...document.querySelectorAll('.sv *')]
  .filter((each) => each.firstChild?.nodeType === Node.TEXT_NODE)
  .map((each) => [`${each.parentElement.getAttribute('class')} ${each.getAttribute('class')}`,
    parseFloat(getComputedStyle(each).fontSize)]))"""

Feed = Callable[..., Any]


@pytest.fixture
def feed(browser: Any) -> Iterator[Feed]:
    """Send data to the player on a new or an open page."""
    source, style = player_source()
    contexts: list[Any] = []

    def show(data: JsonObject, page: Any = None, *, width: int = 1140, root: str = "16px") -> Any:
        if page is None:
            context = browser.new_context(viewport={"width": width, "height": 860})
            contexts.append(context)
            page = context.new_page()
            page.route("http://player.test/", lambda route: route.fulfill(body=""))
            page.goto("http://player.test/")  # an origin with local storage
            page.set_content(f"<html style='font-size:{root}'><body><div id=stage></div>")
            page.add_style_tag(content=style)
            page.add_script_tag(content=source.replace("export default", "window.mountPlayer ="))
        page.evaluate(MOUNT, data)
        next_frame(page)
        return page

    yield show
    for context in contexts:
        context.close()


def data_of(trace: Trace, state: str = "done", **others: Any) -> JsonObject:
    return payload_of_trace(trace, run_id="own", state=state, label=state) | others


def in_state(data: JsonObject, state: str, *, growing: bool, waiting: bool = False) -> JsonObject:
    return {**data, "run": {**data["run"], "state": state, "waiting": waiting}, "growing": growing}


def words(page: Any, selector: str) -> str:
    return str(page.inner_text(selector)).replace("\u00a0", " ")


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


# Charts


# The mark of each chart over rounds, from 0 at the left edge to 1.
MARKS = """() => ['.ch-acceptance .ch-cursor', '.ch-times .ch-now-slot'].map((each) => {
  const line = document.querySelector(each), box = line.closest('svg').getBoundingClientRect();
  return (line.getBoundingClientRect().left - box.left) / box.width;
})"""


def test_the_charts_share_the_cursor_of_the_player(feed: Feed) -> None:
    trace = recorded()
    page = feed(data_of(trace))
    ends = list(accumulate(events_of(entry) for entry in trace.rounds))
    seek(page, 0)
    assert page.locator(".ch-unmarked").count() == 1
    seen = []
    for round_ in (0, len(ends) // 2, len(ends) - 1):
        seek(page, ends[round_])
        seen.append(page.evaluate(MARKS))
    assert page.locator(".ch-unmarked").count() == 0
    for chart in range(2):
        first, middle, last = (places[chart] for places in seen)
        assert first < middle < last
        assert last - first > 0.4
    # A click on a chart seeks the player.
    chart = page.locator(".ch-acceptance svg")
    size = chart.bounding_box()
    place = {"x": seen[1][0] * size["width"], "y": size["height"] / 2}
    chart.click(position=place)
    next_frame(page)
    assert int(page.locator('[data-testid="seek"]').input_value()) == ends[len(ends) // 2]


def test_rounds_are_announced_at_most_once_a_second(feed: Feed) -> None:
    trace = recorded()
    page = feed(data_of(trace))
    seek(page, 0)

    def hear(words: str) -> None:
        page.wait_for_function(
            "words => [...document.querySelectorAll('[aria-live]')]"
            ".some((each) => each.textContent.startsWith(words))",
            arg=words,
        )

    page.click('[data-testid="step-round"]')
    first = trace.rounds[0]
    hear(f"Round 1: {first.num_accepted} of {first.num_drafted} accepted")
    for _ in range(3):
        page.click('[data-testid="step-round"]')
    emitted = sum(len(entry.emitted) for entry in trace.rounds[1:4])
    hear(f"Rounds 2 to 4: {emitted} tokens.")


def test_the_window_of_times_follows_the_cursor_to_the_start(feed: Feed) -> None:
    page = feed(data_of(repeated(recorded(), 4)))
    first = ".ch-times .ch-bottom text >> nth=0"
    assert page.text_content(first) != "round 1"
    seek(page, 0)
    assert page.text_content(first) == "round 1"
    assert page.is_hidden(".ch-times .ch-now-slot")


def test_kinds_of_time_are_named_by_their_colours(feed: Feed) -> None:
    page = feed(data_of(recorded()))
    pairs = page.eval_on_selector_all(
        ".ch-times .entry, .lanes .entry",
        "all => all.map(e => [e.textContent, getComputedStyle(e.firstChild).backgroundColor])",
    )
    names = {name: {colour for word, colour in pairs if word == name} for name, _ in pairs}
    assert {"draft", "target", "other"} < set(names)
    assert all(len(colours) == 1 for colours in names.values())


def throughput(**changes: Any) -> JsonObject:
    data = data_of(recorded())
    chart = data["charts"]["throughput"]
    assert chart is not None
    return {**data, "charts": {"throughput": {**chart, **changes}}}


@pytest.mark.parametrize(("factor", "drawn"), [(1.02, False), (1.2, True), (0.8, True)])
def test_the_measured_target_alone_has_a_separate_line(
    feed: Feed, factor: float, drawn: bool
) -> None:
    target = throughput()["charts"]["throughput"]["target"]
    page = feed(throughput(measured_target=factor * target))
    names = page.text_content(f"{THROUGHPUT} svg")
    assert bool(re.search(r"target alone.*, measured \d", names)) == drawn
    display = page.eval_on_selector(f"{THROUGHPUT} .ch-faint", "e => getComputedStyle(e).display")
    assert (display != "none") == drawn
    assert "× target alone (step costs)" in names
    assert "step costs" in words(page, f"{THROUGHPUT} .ch-caption")


def test_doubtful_step_costs_are_reported(feed: Feed) -> None:
    busy = "The machine was busy. Measure step costs again under The pair."
    page = feed(throughput(doubt="The machine was busy."))
    assert busy in words(page, f"{THROUGHPUT} .ch-caption")
    feed(throughput(doubt=None), page)
    page.wait_for_function(  # charts update twice a second
        "([caption, busy]) => !document.querySelector(caption).innerText"
        ".replaceAll('\\u00a0', ' ').includes(busy)",
        arg=[f"{THROUGHPUT} .ch-caption", busy],
    )
    assert "step costs" in words(page, f"{THROUGHPUT} .ch-caption")


def test_a_stopped_run_is_a_hollow_point(feed: Feed) -> None:
    point = throughput()["charts"]["throughput"]["points"][0]
    page = feed(throughput(points=[point, {**point, "current": False, "partial": True}]))
    styles = page.eval_on_selector_all(
        f"{THROUGHPUT} .ch-point",
        "all => all.map(e => getComputedStyle(e, '::before'))"
        ".map(s => [s.borderStyle, parseFloat(s.width)])",
    )
    (whole, size), (partial, smaller) = styles
    assert (whole, partial) == ("solid", "dashed")
    assert smaller < size
    assert "stopped" in page.get_attribute(f"{THROUGHPUT} .ch-partial", "aria-label")


def test_until_timed_the_target_alone_uses_step_costs(feed: Feed) -> None:
    data = {**making(data_of(recorded())), "lanes": None, "target_step": 0.01}
    page = feed(data)
    page.click(LIVE)
    next_frame(page)
    assert words(page, RESULT) == "target alone: from step costs, not measured yet"
    seconds = sum(sum(each["times"].values()) for each in data["rounds"]["items"])
    assert words(page, COUNT).split()[0] == str(int(seconds / 0.01))
    feed({**data, "target_step": None}, page)
    assert words(page, NOTE) == "measured after the run"
    assert words(page, RESULT) == ""


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


def making(data: JsonObject) -> JsonObject:
    running = in_state(data, "running", growing=True)
    return {**running, "run": {**running["run"], "decoded": False}}


def test_a_fast_run_plays_at_a_readable_pace_to_its_end(feed: Feed) -> None:
    whole = data_of(recorded())
    total = whole["rounds"]["total"]
    page = feed(making(whole))
    page.wait_for_timeout(1500)
    shown, ahead = page.evaluate(
        f"[document.querySelectorAll('{ROUND}').length, "
        f"document.querySelector('{AHEAD}').innerText.replaceAll('\\u00a0', ' ')]"
    )
    assert 2 <= shown <= 6
    assert f"decoder {total - shown} rounds ahead" in ahead
    feed(in_state(whole, "done", growing=False), page)
    assert "all decoded" in words(page, AHEAD)
    page.wait_for_timeout(1000)
    assert shown < page.locator(ROUND).count() < total
    page.click(LIVE)
    next_frame(page)
    assert page.is_hidden(AHEAD)
    assert page.input_value(SEEK) == page.get_attribute(SEEK, "max")


def test_the_first_round_of_a_live_run_is_shown_at_once(feed: Feed) -> None:
    page = feed(making(data_of(recorded())))
    assert page.locator(ROUND).count() == 1
    assert page.locator(f"{ROUND} [data-testid=token]").count() >= 2


# All cursor positions in the next 1.5 seconds.
PLACES = """() => new Promise(done => {
  const seen = new Set(), seek = document.querySelector('[data-testid="seek"]');
  const began = performance.now();
  (function look(now) {
    seen.add(Number(seek.value));
    if (now - began < 1500) requestAnimationFrame(look); else done([...seen]);
  })(began);
})"""


def test_while_decoding_each_round_is_painted_once(feed: Feed) -> None:
    whole = data_of(recorded())
    page = feed(making(whole))
    places = page.evaluate(PLACES)
    rounds = page.locator(ROUND).count()
    assert 2 <= len(places) <= rounds + 2
    feed(in_state(whole, "done", growing=False), page)
    assert len(page.evaluate(PLACES)) > 2 * len(places)  # now token by token


def test_pausing_and_stepping_behind_the_decoder(feed: Feed) -> None:
    whole = data_of(recorded())
    first = {**whole["rounds"], "items": whole["rounds"]["items"][:20], "total": 20}
    page = feed({**making(whole), "rounds": first})
    page.wait_for_timeout(800)
    page.click('[data-testid="play"]')
    next_frame(page)
    at, ahead = int(page.input_value(SEEK)), words(page, AHEAD)
    feed(making(whole), page)
    page.wait_for_timeout(600)
    assert int(page.input_value(SEEK)) == at
    assert words(page, AHEAD) != ahead  # the decoder continued
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
    places = page.evaluate(PLACES)
    assert 2 <= len(places) <= 8


@pytest.mark.parametrize("width", [1140, 700, 380])
def test_the_decoder_status_fits(feed: Feed, width: int) -> None:
    page = feed(making(data_of(recorded())), width=width)
    where, ahead = (page.locator(each).bounding_box() for each in (".where", AHEAD))
    speed = page.locator(SPEED).bounding_box()
    assert speed["x"] + speed["width"] <= width
    same_line = abs(where["y"] - ahead["y"]) < 10
    assert not same_line or where["x"] + where["width"] <= ahead["x"]


def test_the_chosen_pace_is_kept_for_the_next_run(feed: Feed) -> None:
    page = feed(making(data_of(recorded())))
    assert page.input_value(SPEED) == "readable"
    page.select_option(SPEED, "now")
    other = making(data_of(recorded()))
    feed({**other, "run": {**other["run"], "id": "next"}}, page)
    assert page.input_value(SPEED) == "now"
    assert page.input_value(SEEK) == page.get_attribute(SEEK, "max")


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
    page = feed(data_of(ended(), end_texts=[END]))
    mark, after = page.query_selector_all(
        '[data-testid="text-pane"] .word:not([data-state="prompt"])'
    )[:2]
    assert (mark.text_content(), mark.get_attribute("title")) == (END, END)
    shown = mark.evaluate("e => getComputedStyle(e, '::before').content")
    assert "end of text" in shown
    assert after.bounding_box()["y"] > mark.bounding_box()["y"]
    assert END in words(page, '[data-testid="round"]')


def test_only_listed_tokens_are_drawn_as_ends(feed: Feed) -> None:
    data = data_of(ended())
    del data["end_texts"]
    assert feed(data).query_selector(".word.end") is None


@pytest.mark.parametrize("width", [1140, 420])
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
    page.wait_for_selector(f"{TOUR}:has-text('Accept or reject')", timeout=10_000)
    next_frame(page)
    row = page.locator('[data-now="true"]').bounding_box()
    tour = page.locator(TOUR).bounding_box()
    assert tour["y"] >= row["y"] + row["height"] or tour["y"] + tour["height"] <= row["y"]
    assert tour["y"] + tour["height"] <= 860
