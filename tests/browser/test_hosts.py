"""Which origins may connect to the dashboard: WebSocket handshakes by host."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import Server


def handshake(server: Server, host: str, origin: str, cookie: str = "") -> int:
    """Return the status of a WebSocket handshake with this host and origin."""
    port = urlsplit(server.url).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest("GET", "/_stcore/stream", skip_host=True)
    for name, value in {
        "Host": host.format(port=port),
        "Origin": origin.format(port=port),
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "c3BlY3ZpenNwZWN2aXoxMg==",
        "Cookie": cookie,
    }.items():
        connection.putheader(name, value)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


# The last two are a class that opens the machine by its address.
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "192.168.1.5", "10.0.0.254"]
)
def test_a_page_opened_by_address_is_served(server: Server, host: str) -> None:
    assert handshake(server, f"{host}:{{port}}", f"http://{host}:{{port}}") == 101


@pytest.mark.parametrize(
    "host",
    ["rebound.example", "localhost.rebound.example", "127.0.0.1.rebound.example",
     "rebound.example:{port}", "5.example:{port}", "user@localhost:{port}", "", "256", "1.256"],
)  # fmt: skip
def test_a_foreign_host_name_is_refused(server: Server, host: str) -> None:
    assert handshake(server, host, f"http://{host}") == 403


@pytest.mark.parametrize("origin", ["http://elsewhere.example", "https://a.example", "null"])
def test_a_foreign_origin_is_refused(server: Server, origin: str) -> None:
    assert handshake(server, "127.0.0.1:{port}", origin) == 403
