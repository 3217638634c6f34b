"""``show`` for another engine's answer: rounds and figures, JSON, and a replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.store import save_trace
from tests.record.server_traces import server_trace, without_rounds


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_trace(server_trace(), tmp_path / "answer.json")
    return tmp_path / "answer.json"


def test_prints_what_the_engine_reported(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(saved)]) == 0
    output = capsys.readouterr().out
    assert "·w2 ·w3 ·w4 ✗2 not reported →·w5" in output
    assert "The engine reports drafted and accepted candidates for every step" in output


def test_prints_the_same_json_as_attach(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(saved), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["engine"], found["metrics"]["num_accepted"]) == ("vllm", 10)


def test_writes_a_replay(saved: Path, tmp_path: Path) -> None:
    assert main(["show", str(saved), "--html", str(tmp_path / "replay.html")]) == 0
    assert "vLLM 0.32.0" in (tmp_path / "replay.html").read_text(encoding="utf-8")


def test_unreported_figures_are_dashes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_trace(without_rounds(server_trace()), tmp_path / "plain.json")
    assert main(["show", str(tmp_path / "plain.json")]) == 0
    assert "draft acceptance rate  –" in capsys.readouterr().out
