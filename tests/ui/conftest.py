"""Fixtures of AppTest pages: one shared data folder with step costs.

The worker is forked, so that it starts at once. The machine's resources for bodies are not probed:
they are a laptop's.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner

from specviz.ui.session.background_jobs import the_job_queue
from tests.machines import LAPTOP, answer_with
from tests.ready_processes import fork_workers
from tests.step_costs import home_with_step_costs


@pytest.fixture(scope="package", autouse=True)
def components() -> Iterator[None]:
    """Search the installed packages for components once, not for every page: half of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            manifest_scanner,
            "scan_component_manifests",
            cache(manifest_scanner.scan_component_manifests),
        )
        yield


@pytest.fixture(scope="package")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return home_with_step_costs(tmp_path_factory)


@pytest.fixture(autouse=True)
def home(
    data_folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.setenv("SPECVIZ_HOME", str(data_folder))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    answer_with(monkeypatch, LAPTOP)
    fork_workers(request, monkeypatch)
    yield
    st.cache_resource.clear()  # ends the worker


@pytest.fixture
def loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open Watch without a worker process that loads the pair."""
    monkeypatch.setattr("specviz.worker.parent.client.Worker.prepare", lambda *_, **__: None)


@pytest.fixture
def own_home(
    data_folder: Path, tmp_path: Path, home: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Give each test its own library with the shared step costs, and an empty job queue."""
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    shutil.copytree(data_folder / "step-costs", tmp_path / "home" / "step-costs")
    yield
    the_job_queue().close()
