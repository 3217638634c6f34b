"""What holds for every test: random examples are the same each time, and none is timed.

Watch begins without a body, as the tests of the small pair assume; those of bodies say otherwise.
"""

from __future__ import annotations

import os

from hypothesis import settings


def pytest_configure() -> None:
    os.environ.setdefault("SPECVIZ_FIRST_BODY", "none")
    settings.register_profile("specviz", deadline=None, derandomize=True)
    settings.load_profile("specviz")
