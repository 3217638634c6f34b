"""The Runs page with a separate library for each test."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from specviz.store import Library
from tests.ui.paging import ROOT, page_of, sound

FIRST = ROOT / "assets" / "first_trace.json"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, home: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate library for each test."""
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def library(home: Path) -> Library:
    return Library()


def runs_page(**link: str) -> AppTest:
    return page_of("runs", **link)


def choose(app: AppTest, *rows: int) -> AppTest:
    """Choose rows of the table, as the browser does."""
    key = app.dataframe[0].key
    assert key is not None
    app.session_state[key] = {"selection": {"rows": list(rows)}}
    return sound(app.run())


def table(app: AppTest) -> pd.DataFrame:
    return app.dataframe[0].value


def words(app: AppTest) -> str:
    return " ".join(each.value for each in (*app.markdown, *app.caption, *app.info, *app.text))
