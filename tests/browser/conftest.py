"""Fixtures with a real server and Chromium. Without a browser the tests are skipped."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest

from specviz.kernels.kept_code import is_missing
from specviz.record.trace import Trace
from specviz.store import save_trace
from tests.browser.contexts import Contexts
from tests.browser.fed_player import player_context
from tests.browser.time_bounds import Machine
from tests.step_costs import home_with_step_costs

__all__ = ["player_context"]  # a fixture

ROOT = Path(__file__).parent.parent.parent
_START_SECONDS = 60
_ANSWER_MS = 60_000  # far above what an idle machine needs
_STARTS = 3  # a port that was free may be taken before the server has it


@dataclass(frozen=True, slots=True)
class Server:
    """A running dashboard and its process."""

    url: str
    pid: int

    def worker_pids(self) -> list[int]:
        """Return the ids of the server's worker processes."""
        found = subprocess.run(
            ["pgrep", "-P", str(self.pid), "-f", "specviz.worker"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return [int(line) for line in found.stdout.split()]

    @contextmanager
    def paused_workers(self) -> Iterator[None]:
        """Suspend the worker processes, so that no job ends meanwhile."""
        pids = self.worker_pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class Demo:
    """A page with only the player, which can show any trace."""

    url: str
    folder: Path

    def show(self, name: str, trace: Trace, **options: str) -> str:
        """Return the URL of a trace, with query parameters such as ``state`` and ``tour``."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            save_trace(trace, path)
        return f"{self.url}/?{urlencode({'trace': name, **options})}"


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium; its headless shell takes an eighth less time."""
    for name in ("chromium-headless-shell", "chromium", "chromium-browser"):
        if path := shutil.which(name):
            return path
    pytest.skip("NO CHROMIUM: the browser tests did not run")


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=_ANSWER_MS)
    with sync_playwright() as playwright:
        # Emulating a GPU takes longer than painting without it.
        options = ["--disable-gpu", "--in-process-gpu", "--disable-background-networking"]
        options += ["--process-per-site"]  # see tests/browser/contexts.py
        options += ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = playwright.chromium.launch(executable_path=chromium, args=options)
        launched.new_context = partial(_new_context, launched.new_context)
        yield launched
        launched.close()


def _new_context(new_context: Callable[..., Any], **options: Any) -> Any:
    context = new_context(**options)
    context.set_default_timeout(_ANSWER_MS)
    return context


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of all servers, with step costs."""
    return home_with_step_costs(tmp_path_factory)


@pytest.fixture(scope="session")
def serve(data_folder: Path) -> Iterator[Callable[..., Server]]:
    """Start servers in separate processes, and stop them all at the end."""
    if is_missing():  # else the first runs would use torch
        subprocess.run([sys.executable, "-m", "specviz.kernels"], cwd=ROOT, check=True)
    started: list[subprocess.Popen[bytes]] = []

    def start_at(
        port: int,
        script: str,
        options: Sequence[str],
        errors: int | None,
        environment: dict[str, str],
    ) -> Server | None:
        process = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", script, f"--server.port={port}", *options],
            cwd=ROOT,
            env={
                **os.environ,
                "SPECVIZ_HOME": str(data_folder),
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": str(ROOT),
                **environment,
            },
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        started.append(process)
        url = f"http://127.0.0.1:{port}"
        return Server(url, process.pid) if _await_health(url, process) else None

    def start(
        script: str = "app.py",
        *,
        options: Sequence[str] = (),
        errors: int | None = None,
        **environment: str,
    ) -> Server:
        """Start a script; ``errors`` is an open file for the server's standard error."""
        for _ in range(_STARTS):
            if server := start_at(_free_port(), script, options, errors, environment):
                return server
        raise AssertionError("the server ended by itself")

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
    for process in started:
        _await_end(process)


@pytest.fixture(scope="session")
def server(serve: Callable[..., Server]) -> Server:
    """The dashboard shared by most tests."""
    return serve()


@pytest.fixture(scope="session")
def untouched(serve: Callable[..., Server]) -> Server:
    """A server that has computed nothing: its pages show the recorded results."""
    return serve()


@pytest.fixture(scope="session")
def timing(serve: Callable[..., Server]) -> Server:
    """A server that times the target alone for several seconds."""
    return serve(SPECVIZ_TIMING_SECONDS="8")


@pytest.fixture(scope="module", autouse=True)
def machine() -> Machine:
    """The share of the cores that other programs use during a module's tests."""
    return Machine()


@pytest.fixture(scope="session")
def demo(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("traces")
    server = serve("tests/browser/apps/player_app.py", SPECVIZ_TRACES=str(folder))
    return Demo(server.url, folder)


@pytest.fixture(scope="session")
def contexts(browser: Any) -> Contexts:
    return Contexts(browser)


@pytest.fixture
def open_page(contexts: Contexts) -> Iterator[Callable[..., Any]]:
    """Open pages in separate sessions; fail on script errors and requests to other hosts."""
    pages: list[Any] = []
    outside: list[str] = []
    errors: list[str] = []

    def note(request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1", "data:", "blob:", "ws://127.0.0.1")):
            outside.append(request.url)

    def open_at(url: str, *, stage: bool = False, **options: Any) -> Any:
        page = contexts.open(url, **options)
        pages.append(page)
        page.on("request", note)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        if not stage:  # most tests need the page itself
            page.wait_for_selector("#first-stage", state="detached")
        return page

    yield open_at
    for page in pages:
        contexts.close(page)
    assert (outside, errors) == ([], [])


def wait_for_state(page: Any, *states: str, seconds: float = 120) -> None:
    """Wait for one of these states; poll often, since some are short."""
    from playwright.sync_api import TimeoutError as TooLate

    try:
        page.wait_for_function(
            "s => s.includes(document.querySelector('[data-testid=status]')?.dataset.state)",
            arg=list(states),
            polling=50,
            timeout=1000 * seconds,
        )
    except TooLate:
        status = page.get_by_test_id("status")
        found = f"{status.get_attribute('data-state')}: {status.inner_text()!r}"
        raise AssertionError(f"after {seconds:g} s the page was not {states} but {found}") from None


def wait_for_pair(page: Any, seconds: float = 220) -> None:
    """Wait until the models are loaded and nothing is being measured."""
    from playwright.sync_api import expect

    status = page.get_by_test_id("status")
    expect(status).to_have_text(re.compile(r"press Run\s*$"), timeout=1000 * seconds)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_health(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Return whether the server started; False if its process ended."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1):
                return True
        except OSError as error:
            if isinstance(error, HTTPError) and error.code == 401:  # behind the token gate
                return True
            time.sleep(0.1)
    raise AssertionError("the server did not start")


def _await_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
