"""The health check: the route, and the command that a container runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from starlette.testclient import TestClient

from specviz.folders import DEMO
from specviz.healthcheck import SERVER, WORKER, main
from specviz.ui.health import PATH, Health


async def _streamlit(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_it_says_whether_the_worker_answers_and_nothing_else() -> None:
    answers = [True, False]
    client = TestClient(Health(_streamlit, lambda _seconds: answers.pop(0)))
    first = client.get(PATH)
    assert (first.status_code, first.text) == (200, "ok\n")
    assert client.get(PATH).status_code == 200  # the answer is kept for a moment
    assert len(answers) == 1


def test_a_worker_that_does_not_answer_is_not_healthy() -> None:
    found = TestClient(Health(_streamlit, lambda _seconds: False)).get(PATH)
    assert (found.status_code, found.text) == (503, "the worker does not answer\n")


@pytest.mark.parametrize("path", ["/healthy", "/health/", "/", "/_stcore/health"])
def test_other_paths_pass(path: str) -> None:
    assert TestClient(Health(_streamlit, lambda _seconds: True)).get(path).status_code == 404


def test_other_methods_pass() -> None:
    assert TestClient(Health(_streamlit, lambda _seconds: True)).post(PATH).status_code == 404


def test_the_demo_is_healthy_without_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEMO, "1")
    assert TestClient(Health(_streamlit, lambda _seconds: False)).get(PATH).status_code == 200


# The command


@contextmanager
def serving(statuses: dict[str, int]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(statuses.get(self.path, 404))
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("server", "worker", "expected"),
    [(200, 200, 0), (401, 200, 0), (403, 200, 0), (200, 503, 1), (500, 200, 1), (200, 401, 1)],
)
def test_the_command_needs_both_answers(
    server: int, worker: int, expected: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving({SERVER: server, WORKER: worker}) as address:
        assert main([address]) == expected
        assert main([f"{address}/"]) == expected
    assert bool(capsys.readouterr().err) is bool(expected)


def test_without_a_server_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["http://127.0.0.1:9"]) == 1
    assert main(["nonsense"]) == 1
    assert main([]) == 1
    assert "no answer" in capsys.readouterr().err
