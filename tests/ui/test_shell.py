"""The shell: the list of pages, and each page opened by a direct link."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_cache import populate_hash_if_needed
from streamlit.testing.v1 import AppTest

from specviz.theory.claims.claim import PageName
from specviz.ui import shell
from specviz.ui.shell import PAGES, Page
from tests.ui.paging import ROOT, opened


def contents(app: AppTest) -> list[str]:
    return [each.value for each in (*app.title, *app.caption, *app.markdown)]


def test_every_page_is_in_the_list_once() -> None:
    assert sorted(each.file for each in PAGES) == sorted((ROOT / "pages").glob("*.py"))
    assert set(get_args(PageName)) <= {each.name for each in PAGES}


def test_the_navigation_follows_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(file: Path, *, visibility: str = "visible", **rest: Any) -> SimpleNamespace:
        return SimpleNamespace(file=file, visibility=visibility, **rest)

    monkeypatch.setattr(shell.st, "Page", made)
    navigation: dict[str, list[Any]] = shell._navigation()
    assert list(navigation) == ["", "Theory"]
    front, named, *others = [each for group in navigation.values() for each in group]
    assert (front.file, front.default) == (named.file, True)
    assert (named.url_path, named.visibility) == ("watch", "hidden")
    assert [each.url_path for each in others] == [each.name for each in PAGES[1:]]
    assert {each.visibility for each in (front, *others)} == {"visible"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_run_directly_opens_the_shell(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit may run a page without app.py: then the shell opens, with the page in it."""
    monkeypatch.setattr("specviz.worker.parent.client.Worker.prepare", lambda *_, **__: None)
    alone, framed = opened(f"pages/{page.name}.py"), opened()
    assert alone.title
    assert contents(alone) == contents(framed)


def test_messages_are_never_replaced_by_their_hash() -> None:
    """The browser may have dropped the cached message, and then fails permanently."""
    message = ForwardMsg()
    message.metadata.delta_path.extend([0, 0])
    message.delta.new_element.html.body = "x" * 5_000_000
    populate_hash_if_needed(message)
    assert not message.metadata.cacheable
