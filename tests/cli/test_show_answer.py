"""``show`` of another engine's answer: rounds and figures, its object, and a replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.store import save_trace
from tests.record.server_traces import server_trace, untold


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_trace(server_trace(), tmp_path / "answer.json")
    return tmp_path / "answer.json"


def test_it_is_shown_with_what_it_told(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(saved)]) == 0
    told = capsys.readouterr().out
    assert "·w2 ·w3 ·w4 ✗2 untold →·w5" in told
    assert "The engine tells of every step" in told


def test_its_object_is_that_of_attach(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(saved), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["engine"], found["metrics"]["num_accepted"]) == ("vllm", 10)


def test_it_becomes_a_replay(saved: Path, tmp_path: Path) -> None:
    assert main(["show", str(saved), "--html", str(tmp_path / "replay.html")]) == 0
    assert "vLLM 0.32.0" in (tmp_path / "replay.html").read_text(encoding="utf-8")


def test_a_server_that_tells_nothing_is_shown_with_dashes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_trace(untold(server_trace()), tmp_path / "plain.json")
    assert main(["show", str(tmp_path / "plain.json")]) == 0
    assert "draft acceptance rate  –" in capsys.readouterr().out
