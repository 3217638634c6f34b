"""What holds for every test: random examples are the same each time, and none is timed."""

from __future__ import annotations

from hypothesis import settings


def pytest_configure() -> None:
    settings.register_profile("specviz", deadline=None, derandomize=True)
    settings.load_profile("specviz")
