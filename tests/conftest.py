"""What holds for every test: random examples are the same each time, and none is timed."""

from __future__ import annotations

import pytest
from hypothesis import settings

_LONG = "test_lossless.py"  # its tests share nothing, and together take minutes


def pytest_configure() -> None:
    settings.register_profile("specviz", deadline=None, derandomize=True)
    settings.load_profile("specviz")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With ``--dist loadgroup`` a file stays in one process, but for the long one."""
    for item in items:
        group = item.nodeid if item.path.name == _LONG else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
