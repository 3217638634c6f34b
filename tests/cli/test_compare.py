"""``compare``: end to end on a tiny pair, killed and gone on with, and what it refuses."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.cli import main
from specviz.engine import load_pair
from specviz.lab.comparison import run_plan
from specviz.store import Library
from tests.cli.fakes import FakeEngine
from tests.comparing.hostile_suites import hostile_suites
from tests.engine.models import write_pair
from tests.step_costs import place_step_costs

PROMPT = "Once upon a time there was a dog."
LANES = ["--lane", "gamma=2", "--lane", "drafter=prompt-lookup"]
SHORT = ["--max-new-tokens", "12", "--ignore-eos"]

KILLS, SECONDS = 12, 20  # as many as come about in that time, and at least four

Record = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("pair"), num_hidden_layers=1)


@pytest.fixture(scope="module", autouse=True)
def home(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Step costs are put in place; all comparisons of the module share one library."""
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("OMP_NUM_THREADS", "1")
        pair = load_pair(draft=f"{folder / 'draft'}", target=f"{folder / 'target'}", threads=1)
        place_step_costs(pair, "model", "prompt-lookup")
        yield
    torch.set_num_threads(threads)


def models(folder: Path) -> list[str]:
    return ["--draft", f"{folder / 'draft'}", "--target", f"{folder / 'target'}", "--threads", "1"]


def compared(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str], code: int = 0
) -> tuple[Record, str]:
    """The printed object, and standard error."""
    capsys.readouterr()
    assert main(["compare", *arguments, *models(folder), *SHORT, "--json"]) == code
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [{"prompt": PROMPT, "kind": "story"}, {"prompt": "def add(a, b):", "kind": "code"}]
    path = tmp_path_factory.mktemp("suite") / "suite.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def saved(folder: Path, suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("saved") / "saved.json"
    asked = [*LANES, "--suite", str(suite), "--repeats", "2", "--title", "mine", "--out", str(out)]
    assert main(["compare", *asked, *models(folder), *SHORT]) == 0
    return out


def test_the_object_has_lanes_and_verdict(saved: Path) -> None:
    record = json.loads(saved.read_text())
    labels = [lane["label"] for lane in record["lanes"]]
    assert labels == ["draft model · γ 2", "prompt lookup · γ 5"]
    assert [lane["count"] for lane in record["lanes"]] == [4, 4]
    for lane in record["lanes"]:
        assert lane["settings"]["max_new_tokens"] == 12
        assert lane["medians"]["tokens_per_second"] > 0
        assert lane["medians"]["speedup"] > 0
        assert lane["intervals"]["speedup"]["over"] == "prompts"
    assert sorted(record["verdict"]["ranking"]) == sorted(labels)
    assert record["verdict"]["text"]
    assert [kind["kind"] for kind in record["kinds"]] == ["story", "code"]
    assert record["complete"] is True


def test_every_run_is_in_the_library(saved: Path) -> None:
    library = Library()
    (row,) = (each for each in library.comparisons() if each.title == "mine")
    assert row.num_runs == 8
    runs = [library.row(run_id) for run_id in library.comparison_jobs(row.key).values()]
    assert {run.summary.kind for run in runs} == {"story", "code"}
    assert all(run.memory_bytes for run in runs)


def test_the_same_again_measures_nothing_and_restart_does(
    saved: Path, suite: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*LANES, "--suite", str(suite), "--repeats", "2"]
    again, said = compared(asked, folder, capsys)
    assert "8 of 8 runs are kept from before" in said
    assert "loading" not in said
    assert again == json.loads(saved.read_text())
    anew, said = compared([*asked, "--restart"], folder, capsys)
    assert "kept 8 of 8" in said
    assert anew["lanes"][0]["medians"] != again["lanes"][0]["medians"]
    latest, said = compared(asked, folder, capsys)
    assert "8 of 8 runs are kept from before" in said
    assert latest == anew


def test_a_table_for_people(
    saved: Path, suite: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    asked = [*LANES, "--suite", str(suite), "--repeats", "2", *models(folder), *SHORT]
    assert main(["compare", *asked]) == 0
    out = capsys.readouterr().out
    for word in ("target alone", "tokens/s", "α expected", "drafting wasted", "story", "code"):
        assert word in out
    assert "2 prompts, 2 repeats" in out


def altered(saved: Path, path: Path, factor: float) -> str:
    """The saved comparison with its first lane's figures a number of times as good."""
    record = json.loads(saved.read_text())
    for name in ("speedup", "tokens_per_second"):
        record["lanes"][0]["medians"][name] *= factor
    path.write_text(json.dumps(record), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("figure", [[], ["--against-rate"]])
def test_a_regression_exits_with_1_and_none_with_0(
    saved: Path,
    suite: Path,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    figure: list[str],
) -> None:
    asked = [*LANES, "--suite", str(suite), "--repeats", "2", *figure]
    now, _ = compared(asked[: len(asked) - len(figure)], folder, capsys)
    base = tmp_path / "now.json"
    base.write_text(json.dumps(now), encoding="utf-8")
    for factor, code in ((1.0, 0), (1.04, 0), (1.1, 1)):
        file = altered(base, tmp_path / "saved.json", factor)
        record, _ = compared([*asked, "--against", file], folder, capsys, code)
        row = record["against"]["lanes"][0]
        assert row["ratio"] == pytest.approx(1 / factor)
        assert row["below"] == (code == 1)
        assert record["against"]["same_machine"] is True
    record, _ = compared([*asked, "--against", file, "--fail-below", "0.9"], folder, capsys)
    assert record["against"]["fail_below"] == 0.9


def test_after_ctrl_c_what_is_kept_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [*LANES, "--prompt", "One day", "--repeats", "2", "--title", "interrupted"]

    def interrupted(*arguments: Any) -> Iterator[Any]:
        yield next(run_plan(*arguments))
        raise KeyboardInterrupt

    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr("specviz.lab.comparison.run_plan", interrupted)
        assert main(["compare", *asked, *models(folder), *SHORT]) == 130
    assert "1 of 4 runs are kept; the same command goes on" in capsys.readouterr().err
    record, said = compared(asked, folder, capsys)
    assert "1 of 4 runs are kept from before" in said
    assert record["complete"] is True


def test_models_that_cannot_be_loaded_leave_nothing_in_the_library(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = Library().comparisons()
    asked = [*LANES, "--prompt", "x", "--draft", str(tmp_path), "--target", str(tmp_path)]
    assert str(tmp_path) in complaint(asked, capsys)
    assert Library().comparisons() == before


# Killed


class Nursery:
    """``asked`` again and again, each time in a process that can be killed."""

    def __init__(self, asked: list[str], folder: Path) -> None:
        self.asked = asked
        self.out, self.err = folder / "out", folder / "err"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def start(self) -> int:
        """The process's id."""
        assert self._process.stdin is not None
        self.err.write_text("")
        request = {"arguments": self.asked, "out": str(self.out), "err": str(self.err)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> int:
        """The exit code, or the negative of the signal."""
        return self._answer()

    def said(self) -> list[str]:
        return self.err.read_text().splitlines(keepends=True)

    def reports(self) -> list[str]:
        """Of runs that are kept; a line half written is none."""
        return [line for line in self.said() if line.startswith("kept ") and line.endswith("\n")]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@pytest.fixture
def nursery(folder: Path, suite: Path, tmp_path: Path) -> Iterator[Nursery]:
    asked = ["compare", *LANES, "--suite", str(suite), "--repeats", "12", "--title", "killed"]
    made = Nursery([*asked, *models(folder), *SHORT, "--json"], tmp_path)
    yield made
    made.close()


def test_killed_at_any_moment_no_reported_run_is_lost_or_made_again(nursery: Nursery) -> None:
    chance, library = random.Random(3), Library()
    done: dict[tuple[int, int, int], str] = {}
    begin = time.monotonic()
    for kills in range(KILLS):
        if kills >= 4 and time.monotonic() > begin + SECONDS:
            break
        child, wanted = nursery.start(), chance.randrange(0, 4)
        deadline = time.monotonic() + 60
        while len(nursery.reports()) < wanted and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        assert nursery.end() == -signal.SIGKILL
        found = [row for row in library.comparisons() if row.title == "killed"]
        jobs = library.comparison_jobs(found[0].key) if found else {}
        new = len(jobs) - len(done)
        assert len(nursery.reports()) <= new <= len(nursery.reports()) + 1
        assert jobs.items() >= done.items()
        assert all(row.num_runs == len(jobs) for row in found)  # none was made twice
        assert all(library.open(jobs[place]).baseline for place in jobs.keys() - done.keys())
        done = jobs
    assert 0 < len(done) < 48
    nursery.start()
    assert nursery.end() == 0
    assert f"{len(done)} of 48 runs are kept from before" in nursery.said()[0]
    assert len(nursery.reports()) == 48 - len(done)
    assert json.loads(nursery.out.read_text())["complete"] is True
    (row,) = (each for each in library.comparisons() if each.title == "killed")
    jobs = library.comparison_jobs(row.key)
    assert row.num_runs == len(jobs) == 48
    assert jobs.items() >= done.items()


# Refused


def complaint(
    arguments: list[str], capsys: pytest.CaptureFixture[str], *, last: bool = False
) -> str:
    """What it says; ``last`` after it has told of runs."""
    capsys.readouterr()
    assert main(["compare", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.rstrip("\n").split("\n")
    first, *hints = lines[-1:] if last else lines
    assert first.startswith("error: ")
    assert all(hint.startswith("try: python -m specviz") for hint in hints)
    return first


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ("--prompt x", "--lane"),
        ("--lane gamma=2 --prompt x", "number of lanes is 1"),
        ("--lane gamma=2 --lane gamma=8", "--prompt --suite --presets"),
        ("--lane gamma=2 --lane gamma=8 --prompt x --presets", "not allowed with"),
        ("--lane gamma=2 --lane gamma=0 --prompt x", "gamma is 0"),
        ("--lane gamma=2 --lane speed=9 --prompt x", "no setting 'speed'"),
        ("--lane gamma=2 --lane seed=9 --prompt x", "differ in seed"),
        ("--lane gamma=2 --lane draft=x --prompt x", "a draft and no target"),
        ("--lane gamma=2 --lane gamma=8 --prompt x --repeats 0", "number of repeats is 0"),
        ("--lane gamma=2 --lane gamma=8 --prompt x --gamma 99", "gamma is 99"),
        ("--lane gamma=2 --lane gamma=8 --prompt x --fail-below 0.9", "Add --against"),
        ("--lane gamma=2 --lane gamma=8 --suite nowhere.jsonl", "cannot be read"),
        ("--lane gamma=2 --lane gamma=8 --suite .", "cannot be read"),
        ("--lane gamma=2 --lane gamma=8 --prompt x --against nowhere.json", "cannot be read"),
        ("--lane gamma=2 --lane gamma=8 --prompt x --out nowhere/x.json", "no folder"),
    ],
)
def test_bad_input_is_told_in_a_line_before_any_model(
    engine: FakeEngine, arguments: str, culprit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert culprit in complaint(arguments.split(), capsys)
    assert engine.asked == {}


def test_hostile_suites_are_refused_in_a_line(
    engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suites = hostile_suites()
    assert len(suites) >= 50
    before = Library().count()
    for number, content in enumerate(suites):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(content)
        told = complaint([*LANES, "--suite", str(path)], capsys)
        assert len(told) < 400
    assert engine.asked == {}
    assert Library().count() == before


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        ("", "is no saved comparison"),
        ("[]", "is no saved comparison"),
        ("[" * 100_000, "is no saved comparison"),
        ('{"lanes": [1]}', "is no saved comparison"),
        ('{"lanes": []}', "has no lane 'γ 2'"),
        ('{"lanes": [{"label": "γ 2", "medians": {"speedup": null}}]}', "has no speedup"),
        ('{"lanes": [{"label": "γ 2", "medians": {"speedup": -1}}]}', "has no speedup"),
        ('{"lanes": [{"label": "γ 2", "medians": {"speedup": NaN}}]}', "has no speedup"),
    ],
)
def test_a_saved_file_that_cannot_be_held_against(
    engine: FakeEngine,
    tmp_path: Path,
    content: str,
    culprit: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "saved.json"
    path.write_text(content, encoding="utf-8")
    asked = ["--lane", "gamma=2", "--lane", "gamma=8", "--prompt", "x", "--against", str(path)]
    assert culprit in complaint(asked, capsys)
    assert engine.asked == {}


@pytest.mark.parametrize("share", ["0", "-1", "nan", "inf", "11"])
def test_a_share_out_of_range(
    engine: FakeEngine, share: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "saved.json"
    path.write_text("{}", encoding="utf-8")
    asked = [*LANES, "--prompt", "x", "--against", str(path), "--fail-below", share]
    assert "--fail-below is" in complaint(asked, capsys)
    assert engine.asked == {}


def test_models_that_changed_under_their_name_are_not_mixed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*LANES, "--prompt", "The dog ran", "--repeats", "2", "--title", "changed"]
    compared(asked, folder, capsys)
    library = Library()
    (row,) = (each for each in library.comparisons() if each.title == "changed")
    jobs = library.comparison_jobs(row.key)
    kept, trace = library.row(jobs[0, 0, 0]), library.open(jobs[0, 0, 0])
    library.delete(list(jobs.values()))
    other = replace(trace.pair, target=replace(trace.pair.target, weights_sha256="0" * 64))
    library.add(replace(trace, pair=other), kept.summary, comparison=row.key, job=(0, 0, 0))
    told = complaint([*asked, *models(folder), *SHORT], capsys, last=True)
    assert "models of a lane have changed" in told
