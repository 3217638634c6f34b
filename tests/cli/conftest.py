"""A data folder for all command tests, and a fake engine on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.fakes import FakeEngine
from tests.step_costs import rough_costs

__all__ = ["rough_costs"]  # a fixture


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("SPECVIZ_HOME", str(folder))
    return folder


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    return FakeEngine(monkeypatch)
