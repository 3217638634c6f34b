"""A tab's state is restored after a reload, and not for another tab."""

from __future__ import annotations

import threading

import pytest

from specviz.ui.session import tabs
from specviz.ui.session.tabs import Tabs


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabs, "_CLOSING_SECONDS", 0.05)


def test_only_a_closed_tab_is_restored() -> None:
    held = Tabs()
    held.keep("key", "tab", "shown")
    assert held.take("key") is None
    held.leave("another")
    assert held.take("key") is None
    held.leave("tab")
    assert held.take("other key") is None
    assert held.take("key") == ("tab", "shown")
    assert held.take("key") is None  # it is open again


def test_a_reconnected_tab_is_not_restored_elsewhere() -> None:
    held = Tabs()
    held.keep("key", "tab", "shown")
    held.leave("tab")
    held.stay("tab")
    assert held.take("key") is None


def test_a_reloaded_page_waits_for_the_old_connection_to_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tabs, "_CLOSING_SECONDS", 10.0)
    held = Tabs()
    held.keep("key", "tab", "shown")
    leaving = threading.Timer(0.1, held.leave, ["tab"])
    leaving.start()
    assert held.take("key") == ("tab", "shown")
    leaving.join()


def test_the_state_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Tabs()
    held.keep("key", "tab", "shown")
    held.leave("tab")
    monkeypatch.setattr(tabs, "_KEPT_SECONDS", -1.0)
    assert held.take("key") is None
    monkeypatch.undo()
    assert held.take("key") is None


def test_requests_end_with_their_tab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabs, "_GRACE", 0.2)
    held, ended = Tabs(), threading.Event()
    held.end_with("tab", ended.set)
    held.leave("another")
    held.leave("tab")
    held.stay("tab")
    assert not ended.wait(0.4)
    held.leave("tab")
    assert ended.wait(5)
