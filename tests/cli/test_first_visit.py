"""A first visit through the worker, with the embedded pair."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from specviz.cli.first_visit import first_visit
from specviz.errors import DeviceError
from specviz.record.pairs import PairSpec
from tests.ready_processes import fork_workers


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """An empty data folder, and workers that are forked, as their start takes seconds."""
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    fork_workers(request, monkeypatch)


def test_the_speedup_comes_after_the_first_round() -> None:
    began = time.perf_counter()
    visit = first_visit(PairSpec(device="cpu", threads=1), budget=0.5)
    assert 0 < visit.first_round < visit.verdict < time.perf_counter() - began
    assert visit.speedup is not None
    assert visit.speedup > 0


def test_refuses_a_body_that_does_not_fit_as_the_page_does() -> None:
    with pytest.raises(DeviceError, match="does not fit"):
        first_visit(PairSpec(device="cpu", threads=1, target_body="100B"))
