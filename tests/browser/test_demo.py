"""The demo in a browser: what a visitor sees, and hand-made requests."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from specviz.folders import DEMO
from tests.browser.conftest import Server
from tests.browser.reading import END, seek
from tests.browser.test_access import serious_violations
from tests.browser.test_hosts import handshake
from tests.ui.demo_pages import IN_THE_DEMO

NOTE = "This is a demo: runs are recorded"
_MOST_BYTES = 300 * 10**6
_OPEN_PAGES = 5


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo home")


@pytest.fixture(scope="module")
def demo_server(serve: Callable[..., Server], home: Path) -> Server:
    options = ["--server.allowedHosts=*"]  # as `specviz --demo` gives
    return serve(options=options, SPECVIZ_HOME=str(home), **{DEMO: "1"})


def status_of(request: urllib.request.Request) -> int:
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_visitor_sees_a_recorded_run_and_chooses_another(
    demo_server: Server, open_page: Callable[..., Any]
) -> None:
    page = open_page(f"{demo_server.url}/")
    page.locator("#root .st-key-recorded_note").get_by_text(NOTE).wait_for()
    assert page.get_by_role("button", name="Run", exact=True).count() == 0
    status = page.locator("#root [data-testid=status]")  # not that of the first view
    assert "recorded" in status.inner_text()
    page.get_by_text("γ 1, temperature 0.7").click()
    page.wait_for_function("() => location.search.includes('recording=gamma-1')")
    page.locator("#root .st-key-recorded_note").wait_for()
    seek(page, END)  # nothing moves
    assert serious_violations(page) == []


@pytest.mark.thorough
def test_several_open_pages_need_little_memory_and_start_no_process(
    demo_server: Server, browser: Any, home: Path
) -> None:
    pages = []
    for each in (*IN_THE_DEMO, *IN_THE_DEMO[:_OPEN_PAGES]):
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{demo_server.url}/{each.name}")
        page.get_by_test_id("stMainBlockContainer").wait_for()
        page.wait_for_function(
            "() => !document.querySelector('[data-testid=stStatusWidget]') &&"
            " document.querySelector('[data-testid=stMainBlockContainer]').innerText.length > 80"
        )
        assert page.get_by_test_id("stException").count() == 0, each.name
        pages.append(context)
        if len(pages) > _OPEN_PAGES:
            pages.pop(0).close()
    process = psutil.Process(demo_server.pid)
    assert process.memory_info().rss < _MOST_BYTES
    assert demo_server.worker_pids() == []
    assert process.children(recursive=True) == []
    assert not [each.path for each in process.memory_maps() if "torch" in each.path]
    assert list(home.iterdir()) == []
    for each in pages:
        each.close()


def test_uploads_and_changes_are_refused(demo_server: Server) -> None:
    for method in ("PUT", "POST", "DELETE"):
        for path in ("/_stcore/upload_file/a/b", "/", "/media/x"):
            url = f"{demo_server.url}{path}"
            assert status_of(urllib.request.Request(url, data=b"x", method=method)) == 403
    assert status_of(urllib.request.Request(f"{demo_server.url}/health")) == 200


def test_a_demo_opens_by_any_name_but_not_from_another_page(demo_server: Server) -> None:
    name = "specviz-demo.hf.space"
    assert handshake(demo_server, name, f"https://{name}") == 101
    assert handshake(demo_server, name, "https://elsewhere.example") == 403
