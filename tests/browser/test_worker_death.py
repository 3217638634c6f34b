"""The models' process is killed in mid-run: the page says so, keeps its rounds, and goes on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Server, wait_for_pair, wait_for_state
from tests.browser.reading import ROUND, click_run, state_of

pytestmark = pytest.mark.alone

TOLD_SECONDS = 2.0


def test_a_killed_worker_is_told_and_replaced(
    server: Server, open_page: Callable[..., Any]
) -> None:
    page = open_page(f"{server.url}/?length=2000&ignore_eos=true&gamma=2")
    wait_for_pair(page)
    click_run(page)
    page.wait_for_selector('.sum-sentence:has-text("so far")')  # the rows are its own from here
    page.wait_for_function(
        f"() => Number(document.querySelector('{ROUND}:last-of-type')?.dataset.index) >= 3"
    )
    (pid,) = server.worker_pids()
    os.kill(pid, signal.SIGKILL)
    killed = time.perf_counter()
    wait_for_state(page, "failed")
    took = time.perf_counter() - killed
    print(f"death of the worker told after {took:.2f} s (bound {TOLD_SECONDS})")
    assert took < 2 * TOLD_SECONDS
    assert "signal 9" in page.locator(".sv").inner_text()
    assert page.locator(ROUND).count() > 3

    set_length(page)
    click_run(page)
    wait_for_state(page, "done", seconds=120)
    assert state_of(page) == "done"
    assert server.worker_pids() != [pid]


def set_length(page: Any) -> None:
    """A short run this time."""
    page.click("text=More settings")
    thumb = page.locator(".st-key-length input[type=range]")
    thumb.focus()
    page.keyboard.press("Home")
    wait_for_state(page, "done", "running", "loading", "queued")
