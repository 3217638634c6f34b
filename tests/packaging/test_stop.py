"""SIGTERM during a run: the dashboard ends in time, and the run is in the library."""

from __future__ import annotations

import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from specviz import ROOT
from specviz.cli.free_port import free_port
from specviz.store import Library
from tests.packaging.dashboards import Dashboard, bound_socket, still_running

SPECVIZ = [sys.executable, "-m", "specviz"]
_MOST_SECONDS = 10  # what `docker stop` waits before it kills

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "Ctrl-C"])
def test_a_stop_in_a_run_stores_its_rounds(
    number: signal.Signals, browser: Any, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    home = tmp_path / "home"
    with bound_socket() as taken:
        port = free_port("127.0.0.1", taken.getsockname()[1])
    url = f"http://127.0.0.1:{port}"
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with Dashboard(SPECVIZ, home, port, "--no-browser", **environment) as dashboard:
        assert dashboard.started(url), dashboard.errors
        page = browser.new_page()
        # The target is enlarged, so that the run lasts for many seconds.
        page.goto(f"{url}/?length=448&ignore_eos=true&target_body=90M&gamma=2&live=false")
        status = page.locator("#root [data-testid=status]")  # not that of the first view
        expect(status).to_have_text(re.compile(r"press |Run simulates"), timeout=220_000)
        page.get_by_role("button", name=re.compile("Run$|and run$")).first.click()
        expect(status).to_have_attribute("data-state", "running", timeout=120_000)
        time.sleep(2)
        children = dashboard.descendants()
        began = time.monotonic()
        dashboard.process.send_signal(number)
        dashboard.process.wait(60)
        taken_seconds = time.monotonic() - began
        assert taken_seconds < _MOST_SECONDS
        assert not still_running(children)
        page.close()
    (row,) = Library(home / "runs.db").find()
    trace = Library(home / "runs.db").open(row.id)
    assert trace.finish == "stopped"
    assert trace.rounds
    assert "Traceback" not in dashboard.errors
