"""Fixtures of AppTest pages: one shared data folder with step costs.

The worker is forked, so that it starts at once. The machine's resources for bodies are not probed:
they are a laptop's.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import app_test, local_script_runner

from specviz.record import pairs
from specviz.ui.session.background_jobs import the_job_queue
from specviz.ui.session.history import RECORDED
from specviz.ui.widgets import run_files
from tests.machines import LAPTOP, answer_with
from tests.ready_processes import fork_workers
from tests.step_costs import home_with_step_costs


@pytest.fixture(scope="package", autouse=True)
def shared_by_pages() -> Iterator[None]:
    """Do once for all pages what a server does once: this takes more than half of the time.

    Search the installed packages for components and for the chat model, and compile the pages'
    scripts. Also make the download files of the recorded run once.
    """
    scripts, make_text = ScriptCache(), run_files._text
    made: list[tuple[tuple[object, ...], str, str]] = []

    def text_made_once(run: tuple[object, ...], name: str, make: Callable[[], str]) -> str:
        if run[0] != RECORDED:
            return make_text(run, name, make)
        for earlier, earlier_name, text in made:
            if (earlier_name, earlier) == (name, run):
                return text
        made.append((run, name, make_text(run, name, make)))
        return made[-1][2]

    with pytest.MonkeyPatch.context() as patch:
        scan = manifest_scanner.scan_component_manifests
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(scan))
        patch.setattr(pairs, "find_spec", cache(pairs.find_spec))
        for module in (app_test, local_script_runner):
            patch.setattr(module, "ScriptCache", lambda: scripts)
        patch.setattr(run_files, "_text", text_made_once)
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
