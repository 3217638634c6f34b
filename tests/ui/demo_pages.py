"""Pages of the demo, opened with AppTest."""

from __future__ import annotations

from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from specviz.folders import DEMO
from specviz.ui.shell import PAGES
from tests.ui.paging import page_of

IN_THE_DEMO = [each for each in PAGES if each.name != "runs"]


def start_demo(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Switch the demo on, with a data folder that must stay empty."""
    home.mkdir()
    monkeypatch.setenv(DEMO, "1")
    monkeypatch.setenv("SPECVIZ_HOME", str(home))
    st.cache_resource.clear()


def demo_page(name: str, **link: str | list[str]) -> AppTest:
    return page_of(name, **link)


def texts(app: AppTest) -> str:
    shown = (*app.title, *app.caption, *app.markdown, *app.info)
    return "\n".join(str(each.value) for each in shown)
