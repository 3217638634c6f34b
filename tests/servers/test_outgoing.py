"""Requests from the pages: which addresses they reach, and attacks on that check."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from specviz.access.addresses import parse_listed
from specviz.errors import ServerError
from specviz.servers import SERVER_KEY
from specviz.servers.connection import Connection, Limits
from specviz.servers.outgoing import Outgoing, Rules, the_outgoing
from tests.servers.replaying import Handler, Page, served

SHORT = Limits(connect=1.0, between=1.0, total=2.0)


@pytest.fixture(autouse=True)
def outgoing() -> Iterator[Outgoing]:
    """Without rules; the test sets them."""
    before, the_outgoing().rules = the_outgoing().rules, None
    yield the_outgoing()
    the_outgoing().rules = before


class Resolver:
    """Answers for names, in place of DNS; counts the questions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, list[list[str]]] = {}  # the answer to each question, in order
        self.asked: list[str] = []
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._resolve)

    def _resolve(self, host: str, port: int, *rest: Any, **more: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in self.answers:
            return self._real(host, port, *rest, **more)
        self.asked.append(name)
        answers = self.answers[name]
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "",
             (each, port))
            for each in (answers.pop(0) if len(answers) > 1 else answers[0])
        ]  # fmt: skip


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    return Resolver(monkeypatch)


@pytest.fixture
def no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_args: object, **_more: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "create_connection", connect)


def rules(*listed: str, only_listed: bool = True) -> Callable[[], Rules]:
    return lambda: Rules(listed=tuple(map(parse_listed, listed)), only_listed=only_listed)


def reply(address: str) -> Any:
    connection = Connection(address, key=SERVER_KEY, allow_remote=True, limits=SHORT)
    return connection.get("/v1/models")


def refusal(address: str) -> str:
    with pytest.raises(ServerError) as caught:
        reply(address)
    return str(caught.value)


def answers(handler: Handler) -> None:
    body = json.dumps({"host": handler.headers["Host"]}).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def port() -> Iterator[str]:
    """The port of a server that answers with the name it was asked for."""
    with served({"/v1/models": Page(behave=answers)}) as server:
        yield server.address.rpartition(":")[2]


# Attacks. Another page listens at "lab.example"; everything else must be refused.

UNLISTED = [
    "http://127.0.0.1:8000", "http://localhost:8000", "http://127.1", "http://2130706433",
    "http://0x7f000001", "http://0177.0.0.1", "http://0x7f.1", "http://[::1]:8000", "http://[::]",
    "http://0.0.0.0:22", "http://[::ffff:127.0.0.1]", "http://[::ffff:7f00:1]",
    "http://[64:ff9b::7f00:1]", "http://[2002:7f00:1::]", "http://10.0.0.1",
    "http://192.168.1.1", "http://172.16.0.1", "http://169.254.1.1", "http://[fe80::1]",
    "http://[fc00::1]", "http://[fe80::1%eth0]", "http://100.64.0.1", "http://localhost.",
    "http://a.localhost", "http://LOCALHOST", "http://lab.example.evil", "http://evil-lab.example",
    "http://lab.example:81", "https://lab.example:80", "http://xn--lab-example-0za", "8.8.8.8",
    "http://lab.example.:81",
]  # fmt: skip
METADATA = [
    "http://169.254.169.254", "http://169.254.169.254:80/", "http://2852039166",
    "http://0xa9fea9fe", "http://0251.0376.0251.0376", "http://169.254.43518",
    "http://[::ffff:169.254.169.254]", "http://[::ffff:a9fe:a9fe]", "http://[fd00:ec2::254]",
    "http://[64:ff9b::a9fe:a9fe]", "http://metadata.google.internal",
    "http://METADATA.GOOGLE.INTERNAL.", "http://100.100.100.200", "http://[fd00:ec2::254%25eth0]",
]  # fmt: skip
MALFORMED = [
    "http://lab.example@169.254.169.254", "http://lab.example:80@127.0.0.1", "http://a:b@lab.example",
    "http://127.0.0.1#@lab.example", "http://127.0.0.1?@lab.example", "http://lab.example\\@127.0.0.1",
    "http://lab.example\t.evil", "http://１２７.0.0.1", "http://ⓛⓐⓑ.example", "http://lab。example",
    "file:///etc/passwd", "gopher://127.0.0.1", "http:///etc/passwd", "http://%31%32%37.0.0.1",
    "http://127.0.0.1%2f@lab.example", "http://[::1", "http://lab.example/../../latest",
    "http://lab.example\r\nHost: evil", "dict://127.0.0.1:11211", "//127.0.0.1",
]  # fmt: skip


@pytest.mark.usefixtures("no_socket")
@pytest.mark.parametrize("address", [*UNLISTED, *METADATA, *MALFORMED])
def test_an_address_that_is_not_listed_is_refused(outgoing: Outgoing, address: str) -> None:
    outgoing.rules = rules("http://lab.example:80")
    refusal(address)


@pytest.mark.usefixtures("no_socket")
@pytest.mark.parametrize("address", METADATA)
def test_metadata_addresses_are_refused_without_a_list_too(
    outgoing: Outgoing, address: str
) -> None:
    outgoing.rules = rules(only_listed=False)
    assert "metadata address" in refusal(address)


@pytest.mark.usefixtures("no_socket")
def test_a_listed_network_does_not_allow_metadata(outgoing: Outgoing) -> None:
    outgoing.rules = rules("169.254.0.0/16", "fd00::/8")
    assert "metadata address" in refusal("http://169.254.169.254")
    assert "metadata address" in refusal("http://[fd00:ec2::254]")


@pytest.mark.usefixtures("no_socket")
def test_unlisted_names_are_not_resolved(outgoing: Outgoing, resolver: Resolver) -> None:
    resolver.answers = {"secret.internal": [["10.0.0.1"]]}
    outgoing.rules = rules("lab.example")
    one, other = refusal("http://secret.internal"), refusal("http://missing.internal")
    assert one.replace("secret", "missing") == other
    assert resolver.asked == []


@pytest.mark.usefixtures("no_socket")
@pytest.mark.parametrize(
    "resolved",
    [["127.0.0.1"], ["10.0.0.1"], ["169.254.1.1"], ["::1"], ["::ffff:10.0.0.1"], ["fe80::1%eth0"],
     ["fd00::1"], ["64:ff9b::a00:1"], ["0.0.0.0"], ["8.8.8.8", "127.0.0.1"], ["224.0.0.1"]],
)  # fmt: skip
def test_a_listed_name_that_resolves_to_a_private_address_is_refused(
    outgoing: Outgoing, resolver: Resolver, resolved: list[str]
) -> None:
    resolver.answers = {"lab.example": [resolved]}
    outgoing.rules = rules("lab.example")
    assert "private or reserved network" in refusal("http://lab.example:8000")


@pytest.mark.usefixtures("no_socket")
@pytest.mark.parametrize("only_listed", [True, False])
def test_a_name_that_resolves_to_metadata_is_refused(
    outgoing: Outgoing, resolver: Resolver, only_listed: bool
) -> None:
    resolver.answers = {"lab.example": [["169.254.169.254"]], "lab2.example": [["fd00:ec2::254"]]}
    outgoing.rules = rules("*.example", "169.254.0.0/16", only_listed=only_listed)
    for name in resolver.answers:
        assert "metadata address" in refusal(f"http://{name}")


# Pinning


def test_the_checked_address_is_contacted_even_if_the_name_changes(
    outgoing: Outgoing, resolver: Resolver, port: str
) -> None:
    resolver.answers = {"lab.example": [["127.0.0.1"], ["169.254.169.254"]]}
    outgoing.rules = rules("lab.example", "127.0.0.0/8")
    found = reply(f"http://lab.example:{port}")
    assert found == {"host": f"lab.example:{port}"}
    assert resolver.asked == ["lab.example"]  # only once: nothing is resolved after the check


def test_a_rebound_name_is_refused_at_the_next_request(
    outgoing: Outgoing, resolver: Resolver, port: str
) -> None:
    resolver.answers = {"lab.example": [["127.0.0.1"], ["127.0.0.2"]]}
    outgoing.rules = rules("lab.example", "127.0.0.1")
    connection = Connection(f"http://lab.example:{port}", key=SERVER_KEY, allow_remote=True,
                            limits=SHORT)  # fmt: skip
    assert connection.get("/v1/models") is not None
    with pytest.raises(ServerError, match="private or reserved"):
        connection.get("/v1/models")


def test_the_next_address_is_tried(outgoing: Outgoing, resolver: Resolver, port: str) -> None:
    resolver.answers = {"lab.example": [["127.0.0.77", "127.0.0.1"]]}
    outgoing.rules = rules("lab.example", "127.0.0.0/8")
    assert reply(f"http://lab.example:{port}") is not None


def test_localhost_works_on_an_open_dashboard(outgoing: Outgoing, port: str) -> None:
    outgoing.rules = rules(only_listed=False)
    assert reply(f"localhost:{port}") == {"host": f"localhost:{port}"}
    outgoing.rules = rules("localhost")
    assert reply(f"localhost:{port}") == {"host": f"localhost:{port}"}


def test_a_redirect_is_not_followed(outgoing: Outgoing) -> None:
    def redirects(handler: Handler) -> None:
        handler.send_response(302)
        handler.send_header("Location", "http://169.254.169.254/latest/meta-data/")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with served({"/v1/models": Page(behave=redirects)}) as server:
        outgoing.rules = rules("127.0.0.1")
        assert "not followed" in refusal(server.address)


def test_a_name_without_address_is_an_error(outgoing: Outgoing, resolver: Resolver) -> None:
    resolver.answers = {"lab.example": [[]]}
    outgoing.rules = rules("lab.example")
    assert "lab.example" in refusal("http://lab.example")


def test_the_certificate_is_checked_for_the_name(
    outgoing: Outgoing, resolver: Resolver, monkeypatch: pytest.MonkeyPatch, port: str
) -> None:
    import ssl

    names: list[str | None] = []

    def wrap(_self: object, _socket: object, server_hostname: str | None = None, **_: object):
        names.append(server_hostname)
        raise OSError("stop here")

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", wrap)
    resolver.answers = {"lab.example": [["127.0.0.1"]]}
    outgoing.rules = rules("lab.example", "127.0.0.1")
    refusal(f"https://lab.example:{port}")
    refusal(f"https://127.0.0.1:{port}")
    assert names == ["lab.example", "127.0.0.1"]


def test_the_command_line_has_no_rules() -> None:
    with served({"/v1/models": Page(behave=answers)}) as server:
        assert reply(server.address) is not None
