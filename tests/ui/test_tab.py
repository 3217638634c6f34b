"""A browser tab is kept by the worker while it is open, and released afterwards."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from specviz.ui.session import worker as session_worker
from specviz.ui.session.tabs import Tabs
from specviz.ui.session.worker import Tab
from specviz.worker.parent.client import Worker


class Onlooker(Worker):
    """A worker that records releases."""

    released: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def release(self, session: str, grace: float = 10.0) -> None:
        self.released += (session,)

    def cancel_release(self, session: str) -> None:
        self.kept += (session,)


@pytest.fixture
def onlooker(monkeypatch: pytest.MonkeyPatch) -> Onlooker:
    made = Onlooker()
    monkeypatch.setattr(session_worker, "the_worker", lambda: made)
    return made


def test_the_tab_is_kept_and_released(onlooker: Onlooker, monkeypatch: pytest.MonkeyPatch) -> None:
    tab = Tab("t", onlooker, Tabs())
    monkeypatch.setattr(session_worker, "_the_tab", lambda _: tab)
    assert session_worker.this_tab() is tab
    session_worker._release(tab)
    assert onlooker.kept == onlooker.released == ("t",)


def page_of_a_tab() -> None:
    from specviz.ui.session import worker as session_worker

    session_worker._the_tab.clear()  # as Streamlit does when a session's connection breaks
    session_worker.this_tab()


def test_a_tab_keeps_its_id_after_its_connection_broke(
    onlooker: Onlooker,
) -> None:
    assert not AppTest.from_function(page_of_a_tab).run().run().exception
    assert len(onlooker.kept) == 2
    assert set(onlooker.released) == set(onlooker.kept)
    assert len(set(onlooker.kept)) == 1
