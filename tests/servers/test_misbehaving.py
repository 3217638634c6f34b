"""Misbehaving servers: one clear error each, in bounded time, without the key."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from specviz.errors import ServerError
from specviz.record.server_run import Capabilities, ServerInfo, ServerSettings
from specviz.servers import SERVER_KEY, ask, find_server, read_counters
from specviz.servers.asking import Answer
from specviz.servers.connection import Limits
from tests.servers.replaying import Handler, Page, Served, events_page, served

SHORT = Limits(connect=1.0, between=0.5, total=1.5)
SETTINGS = ServerSettings(max_new_tokens=8)
KEY = "sk-0123456789abcdef"


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 10


def info_of(address: str, **capabilities: bool) -> ServerInfo:
    return ServerInfo(
        address=address,
        engine="openai",
        version=None,
        model="tiny",
        gamma=None,
        capabilities=Capabilities(**capabilities),
    )


def asked(server: Served) -> Answer:
    return ask(info_of(server.address), "Once", SETTINGS, limits=SHORT)


def one_line(error: ServerError) -> str:
    text = str(error)
    assert "\n" not in text
    assert text.endswith(".")
    assert KEY not in text
    return text


def failure(server: Served) -> str:
    """Return the failure of an answer, which is raised once and keeps earlier rounds."""
    answer = asked(server)
    with pytest.raises(ServerError) as caught:
        list(answer)
    assert list(answer) == []
    trace = answer.trace()
    assert trace.finish == "stopped"
    assert trace.notices[-1] == str(caught.value)
    return one_line(caught.value)


def refusal_of(behave: Callable[[Handler], None]) -> str:
    """Return why a server that behaves so is not found."""
    with (
        served({"/v1/models": Page(behave=behave)}) as server,
        pytest.raises(ServerError) as caught,
    ):
        find_server(server.address, limits=SHORT)
    return one_line(caught.value)


def completion(behave: Callable[[Handler], None] | Page) -> dict[str, Page]:
    return {"/v1/completions": behave if isinstance(behave, Page) else Page(behave=behave)}


def piece(text: str) -> dict[str, object]:
    return {"choices": [{"index": 0, "text": text, "finish_reason": None}]}


# No connection


def test_no_server() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{held.getsockname()[1]}"
    with pytest.raises(ServerError, match="cannot be reached: connection refused") as caught:
        find_server(address, limits=SHORT)
    one_line(caught.value)


def test_unknown_host_name() -> None:
    with pytest.raises(ServerError, match="cannot be reached") as caught:
        find_server("https://no-such-machine.invalid", allow_remote=True, limits=SHORT)
    one_line(caught.value)


def test_server_that_never_answers() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        with pytest.raises(ServerError, match="has sent nothing") as caught:
            find_server(f"http://127.0.0.1:{held.getsockname()[1]}", limits=SHORT)
    one_line(caught.value)


def test_server_that_sends_its_header_slowly() -> None:
    def drip(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not handler.served.over.wait(0.1):
            handler.wfile.write(b"X")

    assert "did not finish within" in refusal_of(drip)


def test_server_without_http() -> None:
    def shout(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(b"SSH-2.0-OpenSSH\r\n\r\n")

    assert "does not speak HTTP" in refusal_of(shout)


def test_untrusted_certificate(tmp_path: Path) -> None:
    made = tmp_path / "own.pem"
    curve = ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]  # an RSA key can take seconds
    words = ["openssl", "req", "-x509", "-newkey", *curve, "-nodes", "-subj", "/CN=localhost"]
    try:
        subprocess.run(
            [*words, "-keyout", made, "-out", tmp_path / "c"],
            check=True,
            timeout=20,
            capture_output=True,
        )
    except FileNotFoundError:
        pytest.skip("openssl is missing")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c", made)
    with served({}) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        with pytest.raises(ServerError, match="cannot be trusted: self-signed") as caught:
            find_server(f"https://127.0.0.1:{server.server_port}", limits=SHORT)
    one_line(caught.value)


def test_https_to_a_plain_http_server() -> None:
    with served({}) as server, pytest.raises(ServerError, match="cannot be trusted") as caught:
        find_server(f"https://127.0.0.1:{server.server_port}", limits=SHORT)
    one_line(caught.value)


# Pages


@pytest.mark.parametrize(("key", "words"), [(KEY, "refuses the key in"), (None, "asks for a key")])
@pytest.mark.parametrize("status", [401, 403])
def test_wrong_key(
    status: int, key: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key is not None:
        monkeypatch.setenv(SERVER_KEY, key)
        monkeypatch.setenv(f"{SERVER_KEY}_FOR", "127.0.0.1")
    page = Page(status=status, body=f"no such key: {key}".encode())
    with (
        served({"/v1/models": page}) as server,
        pytest.raises(ServerError, match=words) as caught,
    ):
        find_server(server.address, limits=SHORT)
    assert SERVER_KEY in one_line(caught.value)
    assert server.asked[0][1].get("Authorization") == (None if key is None else f"Bearer {KEY}")


def test_removes_a_repeated_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_KEY, KEY)
    monkeypatch.setenv(f"{SERVER_KEY}_FOR", "127.0.0.1")
    page = Page(status=500, body=json.dumps({"error": {"message": f"your {KEY} is odd"}}).encode())
    with served(completion(page)) as server:
        assert "answers 500: your [key] is odd" in failure(server)
    with served(completion(events_page([piece(KEY), {"error": f"odd: {KEY}"}]))) as server:
        answer = asked(server)
        with pytest.raises(ServerError, match=r"odd: \[key\]"):
            list(answer)
    assert KEY not in repr(answer.trace())
    assert KEY not in repr(vars(answer)["_connection"])


def test_does_not_follow_redirects() -> None:
    with served({}) as elsewhere:
        place = elsewhere.address.replace("//", "//name:secret@") + "/there?token=secret"
        page = Page(status=307, headers={"Location": place})
        with served({"/v1/models": page, **completion(page)}) as server:
            with pytest.raises(ServerError, match="redirects to") as caught:
                find_server(server.address, limits=SHORT)
            text = failure(server)
        assert elsewhere.asked == []
    assert f"{elsewhere.address}/there," in one_line(caught.value)
    assert f"{elsewhere.address}/there," in text
    assert "secret" not in text


def test_no_list_of_models() -> None:
    for page in (Page(body=b"<html>"), Page(body=b'{"data": []}'), Page(body=b'{"data": 3}')):
        with (
            served({"/v1/models": page}) as server,
            pytest.raises(ServerError, match="no list of models"),
        ):
            find_server(server.address, limits=SHORT)


def test_model_that_is_not_served() -> None:
    page = Page(body=b'{"data": [{"id": "one"}, {"id": "two"}]}')
    with served({"/v1/models": page}) as server:
        with pytest.raises(ServerError, match="it serves: one, two"):
            find_server(server.address, model="three", limits=SHORT)
        assert find_server(server.address, model="two", limits=SHORT).model == "two"


def test_no_counters() -> None:
    with served({}) as server, pytest.raises(ServerError, match="no /metrics page"):
        read_counters(info_of(server.address))


def test_speculation_that_cannot_be_turned_off() -> None:
    with served({}) as server, pytest.raises(ServerError, match="cannot turn speculation off"):
        ask(info_of(server.address), "Once", SETTINGS, speculate=False)


# Streams


def test_refusal_has_the_engines_reason() -> None:
    body = json.dumps({"error": {"message": "max_tokens\n is too large", "code": 400}}).encode()
    with served(completion(Page(status=400, body=body))) as server:
        assert "answers 400: max_tokens is too large" in failure(server)


def test_missing_endpoint() -> None:
    with served({}) as server:
        assert "answers 404: Not Found" in failure(server)


def test_error_in_the_stream() -> None:
    page = events_page([piece("a"), {"error": {"message": "out of memory"}}])
    with served(completion(page)) as server:
        assert "answers: out of memory" in failure(server)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'data: {"choices": [\n\n', "not JSON"),
        (b"data: " + b"[" * 100_000 + b"\n\n", "not JSON"),
        (b"data: 3\n\n", "not a JSON object"),
        (b"<html><body>Welcome</body></html>", "not an event stream"),
        (b'{"choices": [{"text": "all at once"}]}', "not an event stream"),
        (b"", "ended the stream before"),
        (b'data: {"choices": [{"text": "a"}]}\n\n', "ended the stream before"),
        (b"data: " + b"x" * 10_000_000 + b"\n\n", "a line of more than 1 MB"),
        (b"x" * 10_000_000, "a line of more than 1 MB"),
    ],
)
def test_broken_stream(body: bytes, words: str) -> None:
    with served(completion(Page(body=body, kind="text/event-stream"))) as server:
        assert words in failure(server)


@pytest.mark.parametrize(
    "event",
    [
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"text": 5, "token_ids": "no", "logprobs": [1], "finish_reason": 3}]},
        {"choices": [{"text": "a", "token_ids": [1, -1], "logprobs": {"tokens": [None]}}]},
        {"usage": [1], "metrics": {"speculative_decoding": {"per_step_accepted": [10**30]}}},
        {"timings": 3, "tokens_predicted": True, "meta_info": [], "stats": 3},
        {"meta_info": {"completion_tokens": "x", "finish_reason": {"type": 3}}, "output_ids": [1]},
    ],
)
@pytest.mark.parametrize("engine", ["vllm", "llama.cpp", "sglang", "lmstudio", "openai"])
def test_ignores_events_of_another_shape(engine: str, event: object) -> None:
    page = events_page([event, piece("x"), event])
    paths = ("/v1/completions", "/completion", "/generate", "/api/v0/completions")
    with served(dict.fromkeys(paths, page)) as server:
        found = info_of(server.address, speculates=True)
        answer = ask(_named(found, engine), "Once", SETTINGS, limits=SHORT)
        with suppress(ServerError):
            list(answer)
    trace = answer.trace()
    assert trace.finish in ("stopped", "eos")
    # It may fail because no event was one of this engine.
    assert trace.rounds or "before the answer was complete" in trace.notices[-1]


def _named(info: ServerInfo, engine: str) -> ServerInfo:
    from dataclasses import replace
    from typing import get_args

    from specviz.record.server_run import EngineName

    (name,) = (each for each in get_args(EngineName) if each == engine)
    return replace(info, engine=name)


def test_ends_an_endless_stream() -> None:
    def endless(handler: Handler) -> None:
        handler.begin_stream()
        while not handler.served.over.wait(0.02):
            handler.event(piece("more "))

    with served(completion(endless)) as server:
        assert "did not finish within 1.5 s" in failure(server)


def test_stream_that_stalls() -> None:
    def halting(handler: Handler) -> None:
        handler.begin_stream()
        handler.event(piece("one"))
        handler.served.over.wait(10)

    with served(completion(halting)) as server:
        assert "has sent nothing for 0.5 s" in failure(server)


def test_stopped_from_another_thread() -> None:
    gone = threading.Event()

    def waiting(handler: Handler) -> None:
        handler.begin_stream()
        handler.event(piece("one"))
        while not handler.served.over.wait(0.02):
            try:
                handler.wfile.write(b": still here\n\n")
            except OSError:
                gone.set()
                return

    with served(completion(waiting)) as server:
        answer = ask(info_of(server.address), "Once", SETTINGS)
        assert next(answer).texts == ("one",)
        threading.Timer(0.2, answer.stop).start()
        assert list(answer) == []  # which would never end otherwise
        assert gone.wait(10)  # the engine notices it, too
    trace = answer.trace()
    assert (trace.finish, trace.text, trace.notices) == ("stopped", "one", ())


def test_stopped_before_the_first_event() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        answer = ask(info_of(f"http://127.0.0.1:{held.getsockname()[1]}"), "Once", SETTINGS)
        answer.stop()
        assert list(answer) == []
    assert answer.trace().rounds == ()
