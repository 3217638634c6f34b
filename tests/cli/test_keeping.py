"""``run`` saves the run in the library, unless disabled, and never fails because of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.cli import main
from specviz.store import Library, load_trace
from tests.cli.fakes import FakeEngine


def test_saves_a_run(
    engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "words", "--json", "--out", str(tmp_path / "run.json")]) == 0
    assert "not kept" not in capsys.readouterr().err
    (row,) = Library().find()
    assert Library().open(row.id) == load_trace(tmp_path / "run.json")
    assert row.summary.gamma == load_trace(tmp_path / "run.json").config.gamma


def test_saves_a_stopped_run(engine: FakeEngine) -> None:
    def prepare(run: object) -> None:
        run.before_round = lambda index: run.stop() if index == 1 else None  # pyright: ignore

    engine.prepare = prepare
    main(["run", "words", "--json"])
    (row,) = Library().find()
    assert row.summary.finish == "stopped"


def test_no_keep_saves_nothing_of_the_run(engine: FakeEngine, home: Path) -> None:
    assert main(["run", "words", "--json", "--no-keep"]) == 0
    assert {each.name for each in home.iterdir()} <= {"load-times", "local_models.json"}


def test_an_unwritable_library_costs_one_line(
    engine: FakeEngine,
    home: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home / "runs.db").write_bytes(b"something else altogether")
    assert main(["run", "words", "--json"]) == 0
    message = capsys.readouterr()
    assert '"metrics"' in message.out
    (line,) = [each for each in message.err.splitlines() if "not saved" in each]
    assert line.startswith("not saved in the run library: ")
    assert "Move the file away" in line
    assert (home / "runs.db").read_bytes() == b"something else altogether"
