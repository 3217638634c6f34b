"""What holds for every test: random examples are the same each time, and none is timed.

Compiled kernels are kept beside the tests' other caches, whatever home a test gives itself. Watch
begins without a body, as the tests of the small pair assume; those of bodies say otherwise. Runs
are timed for a tenth of a second only, which gives wide intervals; those of timing say otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings


def pytest_configure() -> None:
    kept = Path(__file__).parent.parent / ".pytest_cache" / "kernels"
    os.environ.setdefault("NUMBA_CACHE_DIR", str(kept))
    os.environ.setdefault("SPECVIZ_FIRST_BODY", "none")
    os.environ.setdefault("SPECVIZ_TIMING_SECONDS", "0.1")
    settings.register_profile("specviz", deadline=None, derandomize=True)
    settings.load_profile("specviz")


@pytest.fixture
def real_start() -> None:
    """Worker processes start as they do for users, and are not forked."""
