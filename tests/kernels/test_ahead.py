"""Compiling in a process of its own: what it leaves, when it is started, and how it may fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specviz.kernels import ahead

STARTED = "from specviz.kernels import ahead; ahead.compile_ahead(); print(len(ahead._processes))"
READY = """
from specviz.kernels.readiness import ready
from specviz.kernels.step import step
print(ready("float32"), sum(step.stats.cache_hits.values()))
"""


def said(home: Path, code: str, python: Path | None = None) -> list[str]:
    """What a fresh process prints, which takes ``python`` for its own program."""
    if python:
        code = f"import sys; sys.executable = {str(python)!r}\n{code}"
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"SPECVIZ_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def states(home: Path) -> dict[Path, int]:
    """When each file was written; without the mark, which has no ending."""
    return {path: path.stat().st_mtime_ns for path in home.rglob("*.nb?")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that the process has filled."""
    home = tmp_path_factory.mktemp("made")
    assert said(home, f"{STARTED}; ahead.wait_for_it()") == ["1"]
    return home


@pytest.fixture
def unmarked(made: Path, tmp_path: Path) -> Path:
    """The same code, but nobody says that it is there."""
    home = tmp_path / "unmarked"
    shutil.copytree(made, home)
    _mark_in(home).unlink()
    return home


def _mark_in(home: Path) -> Path:
    (mark,) = (path for path in home.rglob("*") if path.is_file() and not path.suffix)
    return mark


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


def test_what_it_makes_is_found_and_not_made_again(made: Path) -> None:
    before = states(made)
    assert said(made, READY) == ["True", "1"]
    assert before
    assert states(made) == before


def test_it_is_not_started_where_the_code_is_kept(made: Path) -> None:
    assert said(made, STARTED) == ["0"]


def test_it_is_not_started_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert said(tmp_path / "file", STARTED) == ["0"]


def test_one_that_fails_leaves_the_kernels_to_their_user(unmarked: Path, tmp_path: Path) -> None:
    broken = program(tmp_path / "broken", "exit 1")
    assert said(unmarked, STARTED + READY, broken) == ["1", "True", "1"]
    assert said(unmarked, STARTED, broken) == ["0"]


def test_one_that_cannot_be_started_is_no_error(tmp_path: Path) -> None:
    assert said(tmp_path, f"{STARTED}; ahead.wait_for_it()", tmp_path / "nowhere") == ["0"]


def test_nobody_who_leaves_waits_for_it(tmp_path: Path) -> None:
    slow = program(tmp_path / "slow", f"sleep 20; touch {tmp_path}/over")
    assert said(tmp_path, STARTED, slow) == ["1"]
    assert not (tmp_path / "over").exists()


def test_one_that_takes_too_long_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen(["sleep", "60"])
    monkeypatch.setattr(ahead, "_processes", [process])
    monkeypatch.setattr(ahead, "_MOST_SECONDS", 0.1)
    began = time.monotonic()
    ahead.wait_for_it()
    assert process.returncode
    assert time.monotonic() - began < 30
