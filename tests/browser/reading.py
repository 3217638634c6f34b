"""Helpers that read and operate a page in the browser."""

from __future__ import annotations

from typing import Any

from specviz.record.trace import Trace

STATUS = '[data-testid="status"]'
ROUND = '[data-testid="round"]'
TEXT_TOKENS = '[data-testid="text-pane"] [data-testid="token"]'
EMITTED = f'{TEXT_TOKENS}:not([data-state="prompt"])'
TOUR = '[data-testid="tour"]'
END = 1_000_000  # beyond any event


# Streamlit fades elements that it is about to redraw, and colours fade when the theme changes.
STILL = """(milliseconds) => {
  const app = document.querySelector('[data-testid=stApp]');
  const ends = (each) => Number.isFinite(each.effect.getComputedTiming().endTime);
  const still = (!app || app.dataset.testScriptState === 'notRunning')
    && !document.querySelector('[data-stale=true]')
    && !document.getAnimations().some((each) => each.playState === 'running' && ends(each));
  window.stillSince = still ? window.stillSince ?? performance.now() : undefined;
  return still && performance.now() - window.stillSince >= milliseconds;
}"""


def wait_until_still(page: Any, milliseconds: int = 0) -> None:
    """Wait until no script, stale element or animation has been seen for some time."""
    page.evaluate("() => { window.stillSince = undefined; }")
    page.wait_for_function(STILL, arg=milliseconds)


def wait_for_script(page: Any) -> None:
    """Wait until the page's script has ended; its fragments may start again."""
    page.wait_for_selector("h1")
    page.wait_for_function(
        "getComputedStyle(document.documentElement).getPropertyValue('--shell') !== ''"
    )
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')


def at_rest(page: Any) -> Any:
    """Return the page once it is drawn. Not for pages with a fragment that a timer reruns."""
    page.wait_for_selector("h1")
    page.wait_for_function(
        "getComputedStyle(document.documentElement).getPropertyValue('--shell') !== ''"
    )
    wait_until_still(page, milliseconds=300)
    return page


def state_of(page: Any) -> str:
    return str(page.get_attribute(STATUS, "data-state"))


def figure(page: Any, name: str) -> float | None:
    value = page.get_attribute(f'[data-testid="figure-{name}"]', "data-value")
    return float(value) if value else None


def text_of(page: Any) -> str:
    """Return the text pane's tokens, joined as drawn."""
    return str(
        page.eval_on_selector_all(TEXT_TOKENS, "all => all.map(t => t.textContent).join('')")
    )


def count_emitted(page: Any) -> int:
    return int(page.eval_on_selector_all(EMITTED, "all => all.length"))


def wait_until_whole(page: Any, trace: Trace) -> None:
    """Wait until every token is in the text; rounds of lost messages are sent again."""
    page.wait_for_function(
        "([tokens, count]) => document.querySelectorAll(tokens).length === count",
        arg=[EMITTED, len(trace.token_ids)],
        polling=50,
    )


def click_run(page: Any) -> None:
    page.click(".st-key-run button")


# A finished run of some length gets a point on the chart; the recorded run's point disappears.
ENDED_AFTER = """([status, before]) =>
  document.querySelector(status)?.dataset.state === 'done'
  && document.querySelectorAll('.ch-throughput .ch-point').length > before"""


def run_to_its_end(page: Any) -> None:
    """Press Run and wait until the run is done; intermediate states may be missed."""
    before = page.locator(".ch-throughput .ch-point").count()
    before = 0 if state_of(page) == "recorded" else before
    click_run(page)
    page.wait_for_function(ENDED_AFTER, arg=[STATUS, before], polling=50, timeout=60_000)


def set_slider(page: Any, key: str, presses: int) -> None:
    """Move a slider by steps, with the keyboard."""
    thumb = page.locator(f".st-key-{key} input[type=range]")
    thumb.focus()
    for _ in range(abs(presses)):
        page.keyboard.press("ArrowRight" if presses > 0 else "ArrowLeft")


def download_trace(page: Any) -> str:
    """Return the text of the downloaded trace file."""
    at_rest(page)  # a button that is replaced during the click would ignore it
    page.wait_for_selector(".st-key-download_trace button:enabled")
    with page.expect_download() as waiting:
        page.click(".st-key-download_trace button")
    return str(waiting.value.path().read_text(encoding="utf-8"))


def next_frame(page: Any) -> None:
    """Wait until the last change is drawn: views draw in the frame after a change."""
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


def settled_box(page: Any, selector: str) -> dict[str, float]:
    """Return an element's box once it was the same for ten frames: it may move for a while."""
    return page.eval_on_selector(
        selector,
        """async (element) => {
          for (let last = '', same = 0; same < 10; ) {
            await new Promise(requestAnimationFrame);
            const now = JSON.stringify(element.getBoundingClientRect());
            same = now === last ? same + 1 : 0;
            last = now;
          }
          return element.getBoundingClientRect().toJSON();
        }""",
    )


def seek(page: Any, event: float) -> None:
    """Seek to an event or, in a race, to a second."""
    page.eval_on_selector(
        '[data-testid="seek"]',
        """(range, value) => {
          range.value = value;
          range.dispatchEvent(new Event('input', {bubbles: true}));
        }""",
        event,
    )
    next_frame(page)


def visible_rounds(page: Any) -> list[int]:
    """Return the indices of the rows in the document, in order."""
    return list(page.eval_on_selector_all(ROUND, "all => all.map(r => Number(r.dataset.index))"))


def tour_to_question(page: Any) -> None:
    """Press Next until the tour asks whether a token is accepted."""
    page.wait_for_selector(f"{TOUR} .yes")
    while page.get_attribute(TOUR, "data-card") != "ask":
        page.click(f"{TOUR} .yes")
    page.wait_for_selector(f"{TOUR} .no")
