"""A first visit through the worker, with the pair in the box as it is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from specviz.cli.first_visit import first_visit
from specviz.errors import DeviceError
from specviz.record.pairs import PairSpec


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))


def test_its_verdict_comes_after_its_first_round() -> None:
    began = time.perf_counter()
    visit = first_visit(PairSpec(device="cpu", threads=1), budget=0.5)
    assert 0 < visit.first_round < visit.verdict < time.perf_counter() - began
    assert visit.speedup is not None
    assert visit.speedup > 0


def test_a_body_that_does_not_fit_is_refused_as_on_the_page() -> None:
    with pytest.raises(DeviceError, match="does not fit"):
        first_visit(PairSpec(device="cpu", threads=1, target_body="100B"))
