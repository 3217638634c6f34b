"""What a tab shows is there again after a reload, and for no other tab."""

from __future__ import annotations

import threading

import pytest

from specviz.ui.session import tabs
from specviz.ui.session.tabs import Tabs


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabs, "_CLOSING_SECONDS", 0.05)


def test_only_a_tab_that_is_gone_is_taken_up() -> None:
    held = Tabs()
    held.keep("key", "tab", "shown")
    assert held.take("key") is None
    held.leave("another")
    assert held.take("key") is None
    held.leave("tab")
    assert held.take("other key") is None
    assert held.take("key") == ("tab", "shown")
    assert held.take("key") is None  # it is open again


def test_a_broken_connection_that_comes_back_keeps_its_place() -> None:
    held = Tabs()
    held.keep("key", "tab", "shown")
    held.leave("tab")
    held.stay("tab")
    assert held.take("key") is None


def test_the_new_page_waits_for_the_old_one_to_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabs, "_CLOSING_SECONDS", 10.0)
    held = Tabs()
    held.keep("key", "tab", "shown")
    leaving = threading.Timer(0.1, held.leave, ["tab"])
    leaving.start()
    assert held.take("key") == ("tab", "shown")
    leaving.join()


def test_it_is_kept_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Tabs()
    held.keep("key", "tab", "shown")
    held.leave("tab")
    monkeypatch.setattr(tabs, "_KEPT_SECONDS", -1.0)
    assert held.take("key") is None
    monkeypatch.undo()
    assert held.take("key") is None


def test_what_is_under_way_ends_with_its_tab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabs, "_GRACE", 0.05)
    held, ended = Tabs(), threading.Event()
    held.end_with("tab", ended.set)
    held.leave("another")
    held.leave("tab")
    held.stay("tab")
    assert not ended.wait(0.2)
    held.leave("tab")
    assert ended.wait(5)
