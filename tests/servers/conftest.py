"""Fixtures for engines that send impossible things."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from specviz.servers import SERVER_KEY
from tests.servers.hostile_engines import KEY


@pytest.fixture
def bounded() -> Iterator[None]:
    """Fail a test that takes 20 seconds; an endless answer takes minutes."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 20


@pytest.fixture
def with_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_KEY, KEY)
    monkeypatch.setenv(f"{SERVER_KEY}_FOR", "127.0.0.1")
