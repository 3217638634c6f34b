"""A dashboard on a network address opens only with the printed link."""

from __future__ import annotations

import os
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import Server
from tests.browser.test_hosts import handshake

_LOCAL = "127.0.0.1:{port}"


@pytest.fixture(scope="module")
def shared(
    serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, str]]:
    """A dashboard that listens on all addresses, and its printed link."""
    log = tmp_path_factory.mktemp("log") / "errors.txt"
    with log.open("wb") as errors:
        server = serve(options=["--server.address=0.0.0.0"], errors=errors.fileno())
    yield server, _printed(log)
    os.kill(server.pid, signal.SIGTERM)


def _printed(log: Path) -> str:
    for _ in range(100):
        if found := re.findall(r"http://\S+\?token=\S+", log.read_text()):
            assert len(found) == 1
            return found[0]
        time.sleep(0.1)
    raise AssertionError("no link was printed")


@pytest.mark.parametrize("path", ["/", "/watch", "/_stcore/health", "/static/js/none.js"])
def test_without_the_token_nothing_is_served(shared: tuple[Server, str], path: str) -> None:
    with pytest.raises(HTTPError, match="401"):
        urllib.request.urlopen(f"{shared[0].url}{path}", timeout=20)


def test_without_the_token_there_is_no_websocket(shared: tuple[Server, str]) -> None:
    assert handshake(shared[0], _LOCAL, f"http://{_LOCAL}") == 403


def test_the_printed_link_opens_watch(
    shared: tuple[Server, str], open_page: Callable[..., Any]
) -> None:
    from playwright.sync_api import expect

    server, link = shared
    assert urlsplit(link).port == urlsplit(server.url).port
    page = open_page(f"{server.url}/watch?gamma=3&{urlsplit(link).query}")
    expect(page.get_by_test_id("status")).to_be_visible(timeout=60_000)
    assert "token" not in page.url
    assert "gamma=3" in page.url
    (cookie,) = [each for each in page.context.cookies() if each["name"].startswith("specviz")]
    assert cookie["httpOnly"]
    assert cookie["value"] not in link
    assert handshake(
        server, _LOCAL, f"http://{_LOCAL}", f"{cookie['name']}={cookie['value']}"
    ) == 101  # fmt: skip
    assert page.request.get(server.url).status == 200  # now with the cookie


@pytest.mark.thorough
def test_the_token_may_be_pasted(shared: tuple[Server, str], browser: Any) -> None:
    from playwright.sync_api import expect

    server, link = shared
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(f"{server.url}/runs?sort=tau")
    assert answer.status == 401
    expect(page.get_by_role("heading")).to_have_text("specviz needs an access token")
    page.get_by_label("Access token").fill("a wrong one")
    page.get_by_role("button", name="Open").click()
    expect(page.locator("main")).to_contain_text("This token is wrong")
    page.get_by_label("Access token").fill(link)
    page.get_by_role("button", name="Open").click()  # may be delayed; the page tries again
    expect(page.get_by_role("heading", name="Runs").first).to_be_visible(timeout=60_000)
    assert "token" not in page.url
    assert "sort=tau" in page.url
    context.close()
