"""Settings for all tests: Hypothesis is deterministic and has no deadline.

Compiled kernels are cached with the tests' other caches, whatever home a test sets. Watch
has no default body, as tests of the small pair assume; tests of bodies override that. Runs
are timed for only a tenth of a second, which gives wide intervals; tests of timing override that.
"""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from specviz.kernels import ahead


def pytest_configure() -> None:
    gc.set_threshold(10_000, 20, 1_000)  # see _collections_between_modules
    kept = Path(__file__).parent.parent / ".pytest_cache" / "kernels"
    os.environ.setdefault("NUMBA_CACHE_DIR", str(kept))
    os.environ.setdefault("SPECVIZ_FIRST_BODY", "none")
    os.environ.setdefault("SPECVIZ_TIMING_SECONDS", "0.1")
    settings.register_profile("specviz", deadline=None, derandomize=True)
    settings.load_profile("specviz")


def _collect_garbage() -> None:
    """Collect garbage, and exclude everything in use from later collections."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    _collect_garbage()


@pytest.fixture(scope="module", autouse=True)
def _collections_between_modules() -> Iterator[None]:
    """Collect garbage after each module; automatic full collections would take much longer."""
    yield
    _collect_garbage()


@pytest.fixture
def real_start() -> None:
    """Start worker processes as users do, instead of forking them."""


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A child process that seems to compile the kernels until it is terminated."""
    process = subprocess.Popen(["sleep", "60"])
    monkeypatch.setattr(ahead, "_processes", [process])
    yield process
    process.terminate()
    process.wait()
