"""A first run and its narrowing interval, Time again, and a reload during a run."""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.browser.conftest import Server, wait_for_state
from tests.browser.reading import EMITTED, STATUS, at_rest, click_run, run_to_its_end, text_of
from tests.browser.test_live_run import first_token_seconds
from tests.browser.time_bounds import Machine

FIRST_ROUND_SECONDS = 0.6
COLD_SECONDS = {"compiled": 4.0, "nothing compiled": 8.0}
STARTS = 3
LEAD = ".sum-sentence"
UNDISTURBED = 0.1  # share of the cores that other programs may use
ENDS = re.compile(r"(\d+\.\d+) (?:to|and) (\d+\.\d+)")


@pytest.fixture(scope="module")
def fresh(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server with an empty data folder, without measurements."""
    home = tmp_path_factory.mktemp("home")
    return serve(SPECVIZ_HOME=str(home), SPECVIZ_TIMING_SECONDS="8")


def width_of(sentence: str) -> float:
    """Return the ratio of the interval's ends; infinite for an interval that is not shown."""
    ends = ENDS.findall(sentence)
    return float(ends[-1][1]) / max(float(ends[-1][0]), 0.01) if ends else math.inf


@pytest.mark.alone
def test_a_first_run_waits_for_no_measurement_and_its_interval_narrows(
    fresh: Server, open_page: Callable[..., Any], machine: Machine
) -> None:
    page = open_page(f"{fresh.url}/?live=false&length=64")
    page.wait_for_function(
        "(status) => /ready: /.test(document.querySelector(status)?.textContent)",
        arg=STATUS,
        timeout=90_000,
    )
    took = first_token_seconds(page)
    print(f"first round {took:.2f} s after the click (bound {FIRST_ROUND_SECONDS})")
    assert took < machine.allowed(FIRST_ROUND_SECONDS)
    # A stall among the first pairs widens the interval; every undisturbed pair narrows it again.
    # On a busy machine the time limit may end the timing first.
    widths, narrowed = list[float](), False
    while len(widths) < 4 or widths[-1] >= max(widths):
        if page.get_attribute(STATUS, "data-state") == "done":
            break
        sentence = str(page.text_content(LEAD))
        if ", so far)" in sentence and widths[-1:] != [width := width_of(sentence)]:
            widths.append(width)
        page.wait_for_timeout(100)
    else:
        narrowed = True
        page.evaluate("document.querySelector('.st-key-stop button').click()")  # may be over
    wait_for_state(page, "done", seconds=machine.allowed(2.5))
    sentence = str(page.text_content(LEAD))
    assert "so far" not in sentence
    assert "on this text" in sentence
    # On a busy machine, pairs after the last sentence may widen it.
    busy = machine.foreign_share() > UNDISTURBED
    assert busy or not narrowed or width_of(sentence) <= max(widths)


@pytest.mark.alone
@pytest.mark.parametrize("kernels", COLD_SECONDS)
def test_the_first_click_on_a_server_that_has_just_started(
    kernels: str,
    serve: Callable[..., Server],
    open_page: Callable[..., Any],
    tmp_path: Path,
    machine: Machine,
) -> None:
    """Run is pressed as soon as it can be: the models are not loaded yet.

    While the kernels are compiled, the run uses torch.
    """
    bound, took = COLD_SECONDS[kernels], list[float]()
    for start in range(STARTS):
        folder = tmp_path / str(start)
        own = {} if kernels == "compiled" else {"NUMBA_CACHE_DIR": str(folder / "kernels")}
        server = serve(SPECVIZ_HOME=str(folder), **own)
        page = open_page(f"{server.url}/?live=false&length=64")
        took.append(first_token_seconds(page))
        page.wait_for_selector(f"{STATUS}[data-state=done]", timeout=60_000)
        notes = str(page.text_content(".sum-because"))
        assert ("used torch" in notes) == (kernels == "nothing compiled")
        page.close()
        os.killpg(server.pid, signal.SIGTERM)  # ends compilation, too
    seconds = ", ".join(f"{each:.2f}" for each in took)
    print(f"first round after {seconds} s, {kernels} (bound {bound})")
    assert median(took) < machine.allowed(bound)


@pytest.mark.thorough
def test_time_again_gives_the_same_text(server: Server, open_page: Callable[..., Any]) -> None:
    """Half a second of timing, the limit in tests, is usually inconclusive or imprecise."""
    page = open_page(f"{server.url}/?live=false&length=32")
    click_run(page)
    wait_for_state(page, "done")
    button = page.get_by_role("button", name="Time again")
    for _ in range(5):
        page.wait_for_timeout(1500)
        if button.count():
            break
        run_to_its_end(page)  # the timing was conclusive after all: two slices agreed by chance
    text = text_of(page)
    before = page.locator(".ch-throughput .ch-point").count()
    button.click()
    page.wait_for_function(
        "([status, before]) => document.querySelector(status)?.dataset.state === 'done' && "
        "document.querySelectorAll('.ch-throughput .ch-point').length > before",
        arg=[STATUS, before],
        timeout=60_000,
    )
    assert text_of(page) == text


STATES = """([status]) => {
  window.states = [];
  const note = () => {
    const state = document.querySelector(status)?.dataset.state;
    if (state && window.states.at(-1) !== state) window.states.push(state);
    requestAnimationFrame(note);
  };
  note();
}"""


@pytest.mark.thorough
def test_a_reload_restores_the_run_and_another_tab_does_not(
    timing: Server, open_page: Callable[..., Any]
) -> None:
    page = open_page(f"{timing.url}/?live=false&length=64&temperature=0.4")
    page.wait_for_selector(f"{STATUS}[data-state=recorded]")
    page.wait_for_function(
        "(status) => /ready: /.test(document.querySelector(status)?.textContent)",
        arg=STATUS,
        timeout=90_000,
    )
    at_rest(page)  # a button that is replaced during the click would ignore it
    click_run(page)
    wait_for_state(page, "running", "done")  # it may be timed before its first figures are drawn
    page.wait_for_selector(EMITTED)
    text = text_of(page)
    address = page.url
    assert "tab=" in address
    other = page.context.new_page()
    other.goto(address)
    other.wait_for_selector(STATUS)
    other.wait_for_timeout(2500)
    assert other.get_attribute(STATUS, "data-state") == "recorded"
    other.close()
    page.add_init_script(f"({STATES})(['{STATUS}'])")
    page.reload()
    page.wait_for_selector(f"{STATUS}[data-state=done]", timeout=30_000)
    states = page.evaluate("() => window.states")
    assert set(states) <= {"loading", "running", "done"}  # loading: before the page has any data
    page.wait_for_function(
        "(count) => document.querySelectorAll("
        "'[data-testid=text-pane] [data-testid=token]').length >= count",
        arg=64,
    )
    assert len(text_of(page)) >= len(text)
    page.reload()  # a finished run is restored, too
    page.wait_for_selector(f"{STATUS}[data-state=done]", timeout=30_000)
    assert set(page.evaluate("() => window.states")) <= {"loading", "done"}
