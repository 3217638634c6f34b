"""Valid addresses, and the keys for them."""

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
def test_normalizes_addresses(given: str, kept: str) -> None:
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
def test_is_local(address: str, local: bool) -> None:
    assert is_local(address) is local


def test_remote_addresses_need_permission() -> None:
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
def test_rejects_addresses_with_secrets_without_repeating_them(address: str) -> None:
    with pytest.raises(ServerError, match="The address contains") as caught:
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
def test_rejects_invalid_addresses(address: str) -> None:
    with pytest.raises(ServerError, match="not an engine address"):
        checked_address(address, allow_remote=True)


def test_rejects_keys_that_headers_cannot_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_KEY, "sec\nret")
    with pytest.raises(ServerError, match=SERVER_KEY) as caught:
        key_for(SERVER_KEY, "http://127.0.0.1:8000")
    assert "sec" not in str(caught.value)
    monkeypatch.setenv(SERVER_KEY, "  ")
    assert key_for(SERVER_KEY, "http://127.0.0.1:8000") is None
