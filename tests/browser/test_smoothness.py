"""Frames per second for a long finished run and for a live one.

The finished run has at least 10,000 tokens; the live one grows by 32 rounds per second. The bounds
are for an idle machine; a test fails at half the frame rate or at twice the latency.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate, pairwise
from statistics import median
from typing import Any

import pytest

from specviz.player.payload import JsonObject, RunStatus, payload
from specviz.record.trace import Trace
from tests.browser.conftest import Demo, Server, wait_for_state
from tests.browser.fed_player import Feed, data_of, feed
from tests.browser.long_runs import FED_RATE, events_of, fed_run, recorded, repeated
from tests.browser.reading import (
    count_emitted,
    next_frame,
    seek,
    visible_rounds,
    wait_until_whole,
)
from tests.browser.time_bounds import Machine

__all__ = ["feed"]  # a fixture

FINISHED_FPS = 55
LIVE_FPS = 45
LATENCY_SECONDS = 0.3
MAX_ROWS = 40
PLAYING_SECONDS = 3
ROUNDS_OF_A_MESSAGE = 12

COUNT_FRAMES = """(seconds) => new Promise((done) => {
  let frames = 0;
  const began = performance.now();
  const turn = (now) => {
    frames += 1;
    if (now - began < 1000 * seconds) requestAnimationFrame(turn);
    else done(1000 * frames / (now - began));
  };
  requestAnimationFrame(turn);
})"""

# Records each new token of the text and when it was visible: one frame after its insertion.
WATCH = """() => {
  const player = document.querySelector('[data-testid="player"]');
  const pane = player.querySelector('[data-testid="text-pane"]');
  const known = new WeakSet(pane.querySelectorAll('[data-testid="token"]'));
  const seen = {tokens: [], rows: [], disorder: 0, most: 0, replaced: 0, frames: 0};
  const take = (token) => {
    if (token.dataset?.testid !== 'token' || known.has(token)) return;
    known.add(token);
    if (token.dataset.state === 'prompt') return;
    const entry = [Number(token.dataset.at), token.textContent];
    requestAnimationFrame(() => seen.tokens.push([...entry, performance.now()]));
  };
  new MutationObserver((records) => records.forEach((r) => r.addedNodes.forEach(take)))
    .observe(pane, {childList: true, subtree: true});
  const began = performance.now();
  const note = (now) => {
    seen.frames += 1;
    seen.seconds = (now - began) / 1000;
    if (document.querySelector('[data-testid="player"]') !== player) seen.replaced += 1;
    const rows = [...document.querySelectorAll('[data-testid="round"]')]
      .map((row) => Number(row.dataset.index));
    if (rows.some((row, i) => i > 0 && row !== rows[i - 1] + 1)) seen.disorder += 1;
    seen.most = Math.max(seen.most, rows.length);
    if (rows.length && seen.rows.at(-1) !== rows.at(-1)) seen.rows.push(rows.at(-1));
    window.watching = requestAnimationFrame(note);
  };
  window.seen = seen;
  window.watching = requestAnimationFrame(note);
}"""


@pytest.fixture(scope="module")
def long_trace() -> Trace:
    trace = recorded()
    return repeated(trace, -(-10_000 // len(trace.token_ids)))


@pytest.fixture(scope="module")
def finished(demo: Demo, browser: Any, long_trace: Trace) -> Iterator[Any]:
    """A page with the finished long run."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(demo.show("long", long_trace, state="done"))
    page.wait_for_selector('[data-testid="round"]', timeout=60_000)
    next_frame(page)
    yield page
    context.close()


@pytest.mark.alone
@pytest.mark.parametrize("speed", ["4", "1"])
def test_a_finished_run_plays_smoothly(
    finished: Any, long_trace: Trace, machine: Machine, speed: str
) -> None:
    middle = sum(map(events_of, long_trace.rounds)) // 2
    seek(finished, middle)
    finished.select_option('[data-testid="speed"]', speed)
    finished.click('[data-testid="play"]')
    rate = finished.evaluate(COUNT_FRAMES, PLAYING_SECONDS)
    finished.click('[data-testid="play"]')
    print(f"finished run at {speed} x: {rate:.0f} frames a second (bound {FINISHED_FPS})")
    assert int(finished.input_value('[data-testid="seek"]')) > middle + PLAYING_SECONDS
    assert 1 / rate < machine.allowed(1 / FINISHED_FPS)


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.1, 0.9, 0.5, 0.0, 1.0, 0.3])
def test_seeking_shows_the_right_round(finished: Any, long_trace: Trace, share: float) -> None:
    starts = [0, *accumulate(events_of(entry) for entry in long_trace.rounds)]
    order = round(share * (len(starts) - 1))
    seek(finished, starts[order])
    rows = visible_rounds(finished)
    assert rows[-1] == max(0, order - 1)  # a cursor at the end of a round belongs to it
    assert len(rows) <= MAX_ROWS
    emitted = sum(len(entry.emitted) for entry in long_trace.rounds[:order])
    assert count_emitted(finished) == emitted


@pytest.fixture(scope="module")
def live_run(serve: Callable[..., Server], browser: Any) -> Iterator[dict[str, Any]]:
    """Record a live run in the page, and return it with the run."""
    server = serve("tests/browser/apps/live_app.py")
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_init_script("localStorage.setItem('specviz.pace', 'now')")
    page = context.new_page()
    page.goto(server.url)
    page.wait_for_selector('[data-testid="round"]')
    page.evaluate(WATCH)
    page.click(".st-key-start button")
    wait_for_state(page, "running")
    wait_for_state(page, "done")
    wait_until_whole(page, fed_run())
    next_frame(page)
    seen = page.evaluate("() => (cancelAnimationFrame(window.watching), window.seen)")
    origin = page.evaluate("() => performance.timeOrigin")
    began = float(page.inner_text(".st-key-began"))
    yield {"seen": seen, "began": began, "origin": origin, "run": fed_run()}
    context.close()


@pytest.mark.alone
def test_a_live_run_is_smooth(machine: Machine, live_run: dict[str, Any]) -> None:
    rate = live_run["seen"]["frames"] / live_run["seen"]["seconds"]
    print(f"live run at {FED_RATE} rounds a second: {rate:.0f} frames a second (bound {LIVE_FPS})")
    assert 1 / rate < machine.allowed(1 / LIVE_FPS)


@pytest.mark.thorough  # the test below without Streamlit and its timer
def test_every_round_of_a_live_run_is_drawn_once_and_in_order(live_run: dict[str, Any]) -> None:
    assert_drawn_once_and_in_order(live_run["seen"], live_run["run"])
    assert live_run["seen"]["replaced"] == 0


def test_every_round_is_drawn_once_and_in_order(feed: Feed) -> None:
    page, run = feed(data_of(recorded()), width=1440, height=900), repeated(recorded(), 3)
    page.evaluate("localStorage.setItem('specviz.pace', 'now')")
    page.evaluate(WATCH)
    for start in range(0, len(run.rounds), ROUNDS_OF_A_MESSAGE):
        feed(message_of(run, start), page)
    wait_until_whole(page, run)
    next_frame(page)
    seen = page.evaluate("window.seen")
    assert_drawn_once_and_in_order(seen, run)
    assert seen["replaced"] == 0


def message_of(run: Trace, start: int) -> JsonObject:
    """Return what the player gets of a live run, whose rounds before ``start`` it has."""
    end = start + ROUNDS_OF_A_MESSAGE
    growing = end < len(run.rounds)
    if growing:
        run = replace(run, rounds=run.rounds[:end], baseline=None)
    state = "running" if growing else "done"
    status = RunStatus(id="fed", state=state, label="live", decoded=not growing)
    return payload(run, status, start=start, growing=growing)


def assert_drawn_once_and_in_order(seen: dict[str, Any], run: Trace) -> None:
    assert [text for _, text, _ in seen["tokens"]] == [
        text for entry in run.rounds for text in texts_of(entry)
    ]
    first = len(run.prompt.token_ids)
    assert [at for at, _, _ in seen["tokens"]] == list(range(first, first + len(run.token_ids)))
    later_rows = seen["rows"][1:]  # the first is the previous run
    assert all(left < right for left, right in pairwise(later_rows))
    assert later_rows[-1] == len(run.rounds) - 1
    assert seen["disorder"] == 0
    assert seen["most"] <= MAX_ROWS


@pytest.mark.alone
def test_a_live_round_has_low_latency(live_run: dict[str, Any], machine: Machine) -> None:
    latency = median(latencies(live_run))
    bound = f"bound {LATENCY_SECONDS} s"
    print(f"live round on the screen after {1000 * latency:.0f} ms, median ({bound})")
    assert 0 < latency < machine.allowed(LATENCY_SECONDS)


def texts_of(entry: Any) -> list[str]:
    accepted = [each.text for each in entry.candidates if each.verdict == "accepted"]
    return [*accepted, entry.extra.text] if entry.extra else accepted


def latencies(live_run: dict[str, Any]) -> list[float]:
    """Return the seconds from each round to the display of its last token."""
    ends = accumulate(len(texts_of(entry)) for entry in live_run["run"].rounds)
    origin, tokens = live_run["origin"], live_run["seen"]["tokens"]
    drawn = [origin / 1000 + tokens[end - 1][2] / 1000 for end in ends]
    return [when - live_run["began"] - (i + 1) / FED_RATE for i, when in enumerate(drawn)]
