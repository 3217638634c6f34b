"""Files of an earlier version still read the same: a trace, a library, a comparison.

The files in ``of_before`` were written by the command line of version 0.1.0, and are never
written again.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.comparison import compare, comparison_to_json
from specviz.comparison.kept_runs import kept_comparison
from specviz.player.replay import comparison_html, replay_html
from specviz.store import Library, load_trace

BEFORE = Path(__file__).parent / "of_before"
# Keys of timing in whole blocks. Now there are intervals, and the first token takes as long as the
# others.
_OF_BLOCKS = ("noisy", "drift", "baseline_ttft_ms")


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(Path(shutil.copy(BEFORE / "runs.db", tmp_path)))


def still(before: Any, now: Any, where: str = "") -> None:
    """Check that every old entry has its old value; new entries are allowed."""
    if isinstance(before, dict):
        for key, value in before.items():
            assert key in now, f"{where}.{key}"
            still(value, now[key], f"{where}.{key}")
    elif isinstance(before, list):
        assert len(before) == len(now), where
        for place, (one, other) in enumerate(zip(before, now, strict=True)):
            still(one, other, f"{where}[{place}]")
    elif isinstance(before, float):
        assert now == pytest.approx(before, rel=1e-12), where
    else:
        assert now == before, where


def written(name: str) -> Any:
    return json.loads((BEFORE / name).read_text(encoding="utf-8"))


def test_show_prints_the_old_output_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(BEFORE / "trace.json"), "--json"]) == 0
    before = written("run.json")
    for figure in _OF_BLOCKS:
        before["metrics"].pop(figure)
    before["metrics"]["intervals"]["coins"].pop("label")  # its wording may have changed
    still(before, json.loads(capsys.readouterr().out))


def test_an_old_comparison_has_its_old_values(library: Library) -> None:
    (row,) = library.comparisons()
    plan, runs = kept_comparison(library, row.key)
    assert (row.num_runs, len(runs)) == (4, 4)
    found = compare(plan, runs)
    before = written("compare.json")
    before.pop("runs")
    before["verdict"].pop("text")  # a sentence, which may format numbers differently
    for part in ("notes", "ranking", "ratios"):  # then of rates, now of speedups
        before["verdict"].pop(part)
    for lane in before["lanes"]:
        lane.pop("noisy")
    for kept in ("medians", "spreads"):
        before["target"][kept].pop("ttft_ms")
    still(before, json.loads(json.dumps(comparison_to_json(found))))
    assert json.dumps("γ 2")[1:-1] in comparison_html(found, runs)


def test_every_old_run_opens_in_the_player(library: Library) -> None:
    rows = library.find()
    assert len(rows) == 5
    for row in rows:
        trace = library.open(row.id)
        assert "player" in replay_html(trace)
    kept = [library.open(row.id) for row in rows if row.summary.gamma == 3]
    assert kept == [load_trace(BEFORE / "trace.json")]
