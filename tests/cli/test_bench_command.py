"""The bench command with a stand-in for what it measures: progress, tables, places."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specviz.cli import main
from specviz.cli.bench import render_bench
from specviz.cli.terminal_text import Painter
from tests.cli.fakes import FakeEngine, bench_result, fake_bench


def test_bench_tells_progress_on_standard_error(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, Any] = {}
    fake_bench(monkeypatch, asked)
    assert main(["bench", "--json", "--repeats", "3", "--quick"]) == 0
    printed = capsys.readouterr()
    record = json.loads(printed.out)
    assert record["ratios"] == {"vs_hf_assisted_best": 1.875, "forecast_error": None}
    assert record["figures"]["bad"] is None
    assert asked == {"repeats": 3, "quick": True}
    assert "step costs" in printed.err


def test_bench_prints_tables(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_bench(monkeypatch, {})
    assert main(["bench"]) == 0
    out = capsys.readouterr().out
    assert "  vs_hf_assisted_best  1.875\n" in out
    assert "  forecast_error           –\n" in out


def test_bench_tables_hold_rows_groups_and_place() -> None:
    lines = render_bench(Painter(colour=False, width=80), bench_result()).split("\n")
    assert "  lane   tokens per second" in lines
    assert "  plain            120.500" in lines
    assert "  hf    story         7   0.016" in lines
    assert "  alpha_by_kind story  0.750" in lines
    assert lines[-1] == "  device cpu · dtype float32 · threads 1"
