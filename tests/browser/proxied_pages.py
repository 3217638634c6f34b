"""Checks in Chromium of a dashboard behind a proxy: see ``check_proxy``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from specviz.store import save_trace, trace_from_json
from tests.browser.conftest import wait_for_pair, wait_for_state
from tests.browser.logins import TOKEN, Browser
from tests.browser.proxies import ProxiedDashboard
from tests.browser.reading import click_run, download_trace, run_to_its_end

Expect = Callable[..., None]
_UPLOAD_BYTES = 3_000_000


@dataclass
class Sockets:
    """The addresses of a page's WebSockets, and of those that were closed."""

    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def watch(self, page: Any) -> None:
        page.on("websocket", self._note)

    def _note(self, socket: Any) -> None:
        self.opened.append(socket.url)
        socket.on("close", lambda each: self.closed.append(each.url))


def check_pages(
    dashboard: ProxiedDashboard, folder: Path, live_seconds: float, expect: Expect
) -> None:
    with chromium() as new_page:
        page, sockets = new_page(), Sockets()
        sockets.watch(page)
        _open_watch(dashboard, page, 64)
        expect("a page opens, without the token in its address", "token" in page.url, False)
        wss = "ws" + dashboard.url.removeprefix("http")
        expect("its socket is encrypted", {each.startswith(wss) for each in sockets.opened}, {True})
        run_to_its_end(page)
        trace = trace_from_json(download_trace(page))
        expect("a run ends, and its trace is downloaded", len(trace.token_ids), 64)
        other = folder / "other.json"
        save_trace(replace(trace, created="2026-01-03T03:04:05+00:00"), other)
        with other.open("a") as file:
            file.write(" " * _UPLOAD_BYTES)
        page.goto(f"{dashboard.url}/runs")
        page.get_by_role("button", name="Import").click()
        page.set_input_files("input[type=file]", str(other))
        page.locator('[data-testid="stFileChipName"]').wait_for()
        page.get_by_role("button", name="Import these").click()
        expect("an upload of 3 MB", _appears(page, "text=1 run imported."))
        check_login(dashboard, new_page(), expect)
        check_long_run(dashboard, new_page(), live_seconds, expect)


def check_login(dashboard: ProxiedDashboard, page: Any, expect: Expect) -> None:
    page.goto(f"{dashboard.url}/runs")
    page.get_by_role("link", name="Log in with Mock").click()
    page.locator('input[name="sub"]').fill("vic")
    page.get_by_role("button", name="Authorize").click()
    expect("a login in the browser", _appears(page, "text=vic@uni.example, viewer"))
    expect("returns to the page under HTTPS", page.url.partition("?")[0], f"{dashboard.url}/runs")
    secure = [each["secure"] for each in page.context.cookies() if "specviz" in each["name"]]
    expect("its cookie is Secure", secure, [True])


def check_long_run(dashboard: ProxiedDashboard, page: Any, seconds: float, expect: Expect) -> None:
    """Suspend the worker during a run, so that the run is live for as long as wanted."""
    idle = Browser(dashboard)
    idle.log_in("ada")
    sockets = Sockets()
    sockets.watch(page)
    _open_watch(dashboard, page, 256)
    with idle.socket() as tab:
        tab.open()
        click_run(page)
        wait_for_state(page, "running")
        with dashboard.server.paused_workers():
            page.wait_for_timeout(1000 * seconds)
        wait_for_state(page, "done")
        seen = (len(sockets.opened), sockets.closed)
        expect(f"a live run of {seconds:g} s keeps its socket", seen, (1, []))
        expect("and so does a tab that sends nothing", bool(tab.open()))


def _open_watch(dashboard: ProxiedDashboard, page: Any, length: int) -> None:
    page.goto(f"{dashboard.url}/?length={length}&token={TOKEN}")
    page.wait_for_selector("#first-stage", state="detached")
    wait_for_pair(page)


def _appears(page: Any, selector: str) -> bool:
    from playwright.sync_api import TimeoutError as TooLate

    with suppress(TooLate):
        page.wait_for_selector(selector, timeout=120_000)  # for a busy machine
        return True
    return False


@contextmanager
def chromium() -> Iterator[Callable[[], Any]]:
    """Yield a function that opens a page with a context of its own."""
    from playwright.sync_api import sync_playwright

    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    path = next(filter(None, map(shutil.which, names)))
    options = ["--ignore-certificate-errors", "--disable-gpu"]
    options += ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=options)

        def new_page() -> Any:
            context = launched.new_context()
            context.add_init_script("localStorage.setItem('specviz.tour', 'done')")
            context.add_init_script("localStorage['specviz.pace'] = 'now'")
            context.set_default_timeout(60_000)
            return context.new_page()

        yield new_page
        launched.close()
