"""``costs``: list, export and forget stored step costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.measure.step_costs import RUNS_KIND, TABLE_KIND, TimedRuns
from specviz.record.step_costs import PhaseCost, RunCosts
from specviz.store import save_value
from tests.traces import make_costs

KEY = f"target {'ab' * 32} draft none step lean; cpu; threads 1"
VERIFY = PhaseCost(phase="verify", candidates=4, cost=1.4, error=0.02)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def run_costs(step: float, process: str) -> RunCosts:
    return RunCosts(
        created="2025-03-01T09:00:00+00:00", process=process, context=80.0, step=step,
        phases=(VERIFY,), pair="toy",
    )  # fmt: skip


def record(*options: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["costs", "--json", *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "specviz.costs"
    return found["costs"]


def test_lists_exports_and_forgets(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record(capsys=capsys) == []
    runs = (run_costs(0.004, "p1"), run_costs(0.006, "p1"), run_costs(0.005, "p2"))
    assert save_value(RUNS_KIND, KEY, TimedRuns(runs=runs))
    assert save_value(TABLE_KIND, "another pair", make_costs())
    (home / RUNS_KIND / "damaged.json").write_text("{")
    other, first = record(capsys=capsys)
    assert (first["key"], first["table"], len(first["runs"])) == (KEY, None, 3)
    assert first["runs"][2]["phases"][0]["cost"] == 1.4
    assert (other["key"], other["runs"]) == ("another pair", [])
    assert other["table"]["contexts"] == list(make_costs().contexts)
    assert main(["costs"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["2", "toy", "3", "2", "5.00", "–"] in lines  # number, pair, runs, processes, step
    assert any(line[:5] == ["2:", "target", "abababab", "draft", "none"] for line in lines)
    assert record("--forget", capsys=capsys) == []
    assert record(capsys=capsys) == []
