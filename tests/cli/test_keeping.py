"""``run`` keeps the run in the library, unless told not to, and never fails because of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.cli import main
from specviz.store import Library, load_trace
from tests.cli.fakes import FakeEngine


def test_a_run_is_kept(
    engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "words", "--json", "--out", str(tmp_path / "run.json")]) == 0
    assert "not kept" not in capsys.readouterr().err
    (row,) = Library().find()
    assert Library().open(row.id) == load_trace(tmp_path / "run.json")
    assert row.summary.gamma == load_trace(tmp_path / "run.json").config.gamma


def test_a_stopped_run_is_kept(engine: FakeEngine) -> None:
    def prepare(run: object) -> None:
        run.before_round = lambda index: run.stop() if index == 1 else None  # pyright: ignore

    engine.prepare = prepare
    main(["run", "words", "--json"])
    (row,) = Library().find()
    assert row.summary.finish == "stopped"


def test_a_run_may_be_left_out(engine: FakeEngine, home: Path) -> None:
    assert main(["run", "words", "--json", "--no-keep"]) == 0
    assert list(home.iterdir()) == []


def test_a_library_that_cannot_be_written_costs_one_line(
    engine: FakeEngine,
    home: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home / "runs.db").write_bytes(b"something else altogether")
    assert main(["run", "words", "--json"]) == 0
    said = capsys.readouterr()
    assert '"metrics"' in said.out
    (line,) = [each for each in said.err.splitlines() if "not kept" in each]
    assert line.startswith("not kept in the run library: ")
    assert "Move it away" in line
    assert (home / "runs.db").read_bytes() == b"something else altogether"
