"""The wheel, built once, and the browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from specviz import ROOT
from tests.browser.conftest import browser, chromium

__all__ = ["browser", "chromium"]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    done = subprocess.run(
        [*command, "--directory", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built
