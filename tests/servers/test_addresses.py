"""Which addresses are taken, and where keys come from."""

from __future__ import annotations

import pytest

from specviz.errors import ServerError
from specviz.servers import SERVER_KEY, is_local
from specviz.servers.address import checked_address, key_for


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        (" http://localhost:8000/v1/ ", "http://localhost:8000"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("https://far.example/engine/v1", "https://far.example/engine"),
    ],
)
def test_as_it_is_kept(given: str, kept: str) -> None:
    assert checked_address(given, allow_remote=True) == kept


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.9.9.9:1", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://0.0.0.0:1", True),
        ("http://10.0.0.7:1", False),
        ("http://localhost.example:1", False),
        ("http://127.0.0.1.example:1", False),
    ],
)
def test_what_is_this_machine(address: str, local: bool) -> None:
    assert is_local(address) is local


def test_another_machine_is_allowed_expressly() -> None:
    for scheme in ("http", "https"):
        with pytest.raises(ServerError, match="another machine"):
            checked_address(f"{scheme}://10.0.0.7:8000", allow_remote=False)
    assert checked_address("http://10.0.0.7:8000", allow_remote=True) == "http://10.0.0.7:8000"


@pytest.mark.parametrize(
    "address",
    [
        "http://user:secret@127.0.0.1:8000",
        "http://secret@127.0.0.1:8000",
        "http://127.0.0.1:8000/?api_key=secret",
        "http://127.0.0.1:8000/#secret",
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(ServerError, match="The address holds") as caught:
        checked_address(address, allow_remote=True)
    assert "secret" not in str(caught.value)
    assert SERVER_KEY in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://",
        "ftp://127.0.0.1",
        "http://127.0.0.1:port",
        "http://a b",
        "http://[::1",
        "x" * 600,
    ],
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ServerError, match="no address"):
        checked_address(address, allow_remote=True)


def test_a_key_that_no_header_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_KEY, "sec\nret")
    with pytest.raises(ServerError, match=SERVER_KEY) as caught:
        key_for(SERVER_KEY, "http://127.0.0.1:8000")
    assert "sec" not in str(caught.value)
    monkeypatch.setenv(SERVER_KEY, "  ")
    assert key_for(SERVER_KEY, "http://127.0.0.1:8000") is None
