"""Several tabs share one device, and quick changes of a setting leave one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from specviz.record.trace import Trace
from specviz.store import trace_from_json
from tests.browser.conftest import Server, wait_for_pair, wait_for_state
from tests.browser.reading import (
    STATUS,
    at_rest,
    click_run,
    download_trace,
    run_to_its_end,
    set_slider,
    state_of,
    text_of,
    wait_until_whole,
)

LONG = "?length=2000&ignore_eos=true&gamma=1&live=false"


@pytest.mark.thorough
def test_gamma_moved_five_times_leaves_one_run(
    server: Server, open_page: Callable[..., Any]
) -> None:
    page = open_page(server.url)
    wait_for_pair(page)
    for _ in range(5):
        set_slider(page, "gamma", 1)
        page.wait_for_timeout(500)
    trace = trace_at_gamma(page, 10)
    assert state_of(page) == "done"
    assert page.locator(".st-key-gamma input[type=range]").input_value() == "10"
    # The cache is intact: the same run without interruption gives the same text.
    wait_until_whole(page, trace)
    text = text_of(page)
    run_to_its_end(page)
    again = trace_from_json(download_trace(page))
    wait_until_whole(page, again)
    assert text_of(page) == text
    assert again.token_ids == trace.token_ids


# The number of decoded tokens in the text and of rows, in every frame.
STAGE = """() => {
  window.stage = [];
  (function look() {
    const words = document.querySelectorAll(
      '[data-testid="text-pane"] .word:not([data-state="prompt"])').length;
    window.stage.push([words, document.querySelectorAll('[data-testid="round"]').length]);
    requestAnimationFrame(look);
  })();
}"""


@pytest.mark.thorough
def test_restarting_a_run_never_empties_the_player(
    server: Server, open_page: Callable[..., Any]
) -> None:
    page = open_page(f"{server.url}/?length=32", pace="")  # at the readable pace, the default
    wait_for_pair(page)
    click_run(page)
    wait_for_state(page, "done")
    decoded = '[data-testid="text-pane"] .word:not([data-state="prompt"])'
    page.wait_for_function("words => document.querySelectorAll(words).length > 3", arg=decoded)
    page.evaluate(STAGE)
    set_slider(page, "gamma", 1)
    assert trace_at_gamma(page, 6)
    assert page.evaluate("Math.min(...window.stage.map(([words]) => words))") >= 1
    assert page.evaluate("Math.min(...window.stage.map(([, rows]) => rows))") >= 1


def trace_at_gamma(page: Any, gamma: int) -> Trace:
    """Wait until the run with this γ is done, and return its trace."""
    for _ in range(20):
        wait_for_state(page, "done")
        page.wait_for_timeout(500)
        trace = trace_from_json(download_trace(page))
        if trace.config.gamma == gamma:
            return trace
    raise AssertionError(f"no run at gamma {gamma}")


@pytest.mark.thorough
def test_a_second_tab_waits_and_closing_the_first_frees_the_device(
    server: Server, open_page: Callable[..., Any]
) -> None:
    first, second = open_page(f"{server.url}/{LONG}"), open_page(f"{server.url}/?length=32")
    wait_for_pair(first)
    wait_for_pair(second)
    with second_in_queue(server, first, second):
        assert "next in the queue" in second.locator(STATUS).inner_text()
        first.click(".st-key-stop button")
    wait_for_state(first, "stopped")
    wait_for_state(second, "done", seconds=60)

    with second_in_queue(server, first, second):
        first.close()
    # A closed tab's runs are stopped after ten seconds.
    wait_for_state(second, "running", "done", seconds=30)
    wait_for_state(second, "done", seconds=60)


@contextmanager
def second_in_queue(server: Server, first: Any, second: Any) -> Iterator[None]:
    """Run in both tabs, and suspend the worker while the second run waits for the first."""
    click_run(first)
    wait_for_state(first, "running")
    with server.paused_workers():
        click_run(second)
        wait_for_state(second, "queued")
        yield


@pytest.mark.thorough
def test_stop_keeps_the_rounds(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{server.url}/{LONG}")
    wait_for_pair(page)
    click_run(page)
    page.wait_for_selector('.sum-headline:has-text("so far")')
    with server.paused_workers():  # so that the run does not end before the click
        page.click(".st-key-stop button")
    wait_for_state(page, "stopped")
    trace = trace_from_json(download_trace(page))
    assert trace.finish == "stopped"
    assert 0 < len(trace.token_ids) < 2000


@pytest.mark.thorough  # an answer of test_servers.py is made with settings that are kept
@pytest.mark.parametrize(("path", "prefix"), [("compare", "compare_"), ("servers", "server_")])
def test_a_page_keeps_its_settings_while_another_is_open(
    server: Server, open_page: Callable[..., Any], path: str, prefix: str
) -> None:
    page = at_rest(open_page(f"{server.url}/{path}"))
    set_slider(page, f"{prefix}length", 2)
    at_rest(page)
    prompt = page.locator(f".st-key-{prefix}prompt textarea")
    prompt.fill("A text of my own.")
    prompt.press("Control+Enter")
    at_rest(page)
    slider = page.locator(f".st-key-{prefix}length input[type=range]")
    length = slider.input_value()
    page.get_by_role("link", name="Runs").first.click()
    page.get_by_role("heading", name="Runs").first.wait_for()
    at_rest(page)
    page.get_by_role("link", name=path.capitalize()).first.click()
    prompt.wait_for()
    at_rest(page)
    assert slider.input_value() == length
    assert prompt.input_value() == "A text of my own."
    assert page.locator(f".st-key-{prefix}preset input").input_value() == "custom prompt"
