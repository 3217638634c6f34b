"""The page in bare mode, with one data folder for all, so that step costs are measured once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st


@pytest.fixture(scope="package")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def home(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SPECVIZ_HOME", str(data_folder))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield
    st.cache_resource.clear()  # ends the worker
