"""``load`` against a scripted engine, with stored files, and its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.load import planning
from specviz.load.stored import sweep_to_json
from tests.cli.tiny_models import home
from tests.load.scripted_engine import ScriptedEngine, running
from tests.load.sweeps import sweep_of

__all__ = ["home"]  # fixture
QUICK = [
    "--concurrency", "1,3", "--seconds", "0.5", "--ramp", "0.1", "--max-new-tokens", "9",
    "--presets",
]  # fmt: skip


def test_a_sweep_is_measured_printed_and_written(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(planning, "PILOT", 1)
    fast = ScriptedEngine(step=lambda users: 0.01 * users, per_step=3)
    alone = ScriptedEngine(step=lambda _: 0.01)
    files = {name: tmp_path / f"sweep.{name}" for name in ("out", "csv", "html")}
    with running(fast) as first, running(alone) as second:
        words = ["load", first.address, "--baseline", second.address, *QUICK]
        for name, path in files.items():
            words += [f"--{name}", str(path)]
        assert main(words) == 0
        out, err = capsys.readouterr()
    assert "requests" in err
    assert "cores" in err
    assert "1 user" in out
    assert "engine's counters" in out
    assert all(path.stat().st_size > 500 for path in files.values())
    assert main(["load", str(files["out"]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["level"] for each in found["levels"]} == {1.0, 3.0}
    assert all(each["totals"]["received"] > 0 for each in found["levels"])


def test_results_of_another_tool_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metric = {"output_token_throughput": {"unit": "tokens/sec", "avg": 640.0}}
    path = tmp_path / "aiperf.json"
    path.write_text(json.dumps({"input_config": {"loadgen": {"concurrency": 8}}, **metric}))
    assert main(["load", str(path)]) == 0
    assert "640" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (["--concurrency", "0"], "levels of load"),
        (["--concurrency", "1,x"], "--concurrency is '1,x'"),
        (["--concurrency", "1,1"], "levels of load"),
        (["--concurrency", "nan"], "levels of load"),
        (["--rate", "inf"], "levels of load"),
        (["--rate", "-1"], "levels of load"),
        (["--seconds", "0"], "The window is 0"),
        (["--budget", "5"], "The budget is 5"),
        (["--gammas", "2,4"], "{gamma}"),
        (["--most-requests", "0"], "most requests"),
        (["--out", "/nowhere/at/all.json"], "--out"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    changed: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(ScriptedEngine(step=lambda _: 0.01, per_step=3)) as server:
        assert main(["load", server.address, *changed]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert says in line


def test_a_sweep_without_the_target_alone_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = sweep_of((1, 2))
    path = tmp_path / "own.json"
    path.write_text(sweep_to_json(sweep), encoding="utf-8")
    assert main(["load", str(path)]) == 0
    assert "γ 4" in capsys.readouterr().out
