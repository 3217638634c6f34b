"""The bench command with fake measurements: progress, tables, machine."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import pytest

from specviz.cli import main
from specviz.cli.batch_bench import render_batch
from specviz.cli.bench import render_bench
from specviz.cli.terminal_text import Painter
from specviz.figures.batch_forecast import FORECAST_LABEL, batch_map
from specviz.record.pairs import PairSpec
from tests.batch_forecasts import batch_forecast
from tests.cli.fakes import FakeEngine, bench_result, fake_bench


def test_bench_reports_progress_on_standard_error(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requested: dict[str, Any] = {}
    fake_bench(monkeypatch, requested)
    assert main(["bench", "--json", "--repeats", "3", "--quick"]) == 0
    printed = capsys.readouterr()
    record = json.loads(printed.out)
    assert record["ratios"] == {"vs_hf_assisted_best": 1.875, "forecast_error": None}
    assert record["figures"]["bad"] is None
    assert requested == {"body": "90M", "repeats": 3, "quick": True}
    assert "step costs" in printed.err


def test_bench_prints_tables(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_bench(monkeypatch, {})
    assert main(["bench"]) == 0
    out = capsys.readouterr().out
    assert "  ratio                value  95 % from     to\n" in out
    assert "  vs_hf_assisted_best  1.875      1.750  2.000\n" in out
    assert "  forecast_error           –          –      –\n" in out
    assert "\n  llama.cpp is not installed\n" in out


def test_bench_loads_the_pair_with_and_without_bodies(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requested: dict[str, Any] = {}
    specs: list[PairSpec] = []
    fake_bench(monkeypatch, requested)
    monkeypatch.setattr(
        sys.modules["specviz.engine"], "load_pair", lambda spec, progress: specs.append(spec)
    )
    assert main(["bench", "--target-body", "1200m", "--draft-body", "30M"]) == 0
    assert requested["body"] == "1.2B"
    assert [(spec.target_body, spec.draft_body) for spec in specs] == [
        ("none", "none"),
        ("1.2B", "30M"),
    ]
    assert {spec.threads for spec in specs} == {1}
    assert main(["bench", "--target-body", "huge"]) == 2
    assert "'huge' is not a simulated size." in capsys.readouterr().err


def test_batch_refuses_other_modes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--batch", "--gpu"]) == 2
    assert "--batch cannot be combined with" in capsys.readouterr().err
    assert main(["bench", "--temperature", "0.7"]) == 2
    assert "--temperature needs --batch." in capsys.readouterr().err


def test_batch_tables_show_points_map_and_experts() -> None:
    found = batch_forecast()
    result = {
        "label": FORECAST_LABEL,
        "forecast": asdict(found),
        "map": [[asdict(point) for point in row] for row in batch_map(found)],
        "environment": {"device": "cpu"},
    }
    printed = render_batch(Painter(colour=False, width=110), result)
    first, _, maps, _, experts, run, machine = printed.split("\n\n")
    assert first.split("\n")[0].split()[:4] == ["batch", "speedup", "forecast", "error"]
    assert len(first.split("\n")) == 1 + len(found.points)
    assert "γ 5: 2.73" in maps
    assert "–" in maps.split("\n")[-1], "two batches do not fit"
    assert "experts per layer" in experts
    assert "verification" in run
    assert machine == "  device cpu"


def test_bench_tables_have_rows_groups_and_machine() -> None:
    lines = render_bench(Painter(colour=False, width=80), bench_result()).split("\n")
    assert "  lane   tokens per second" in lines
    assert "  plain            120.500" in lines
    assert "  hf    story         7   0.016" in lines
    assert "  alpha_by_kind story  0.750" in lines
    assert lines[-1] == "  device cpu · dtype float32 · threads 1"
