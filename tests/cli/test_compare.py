"""``compare``: end to end on a tiny pair, interrupted and continued, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specviz.cli import main
from specviz.comparison.plan_runner import run_plan
from specviz.engine import load_pair
from specviz.record.pairs import PairSpec
from specviz.store import Library
from tests.cli.fakes import FakeEngine
from tests.engine.models import write_pair
from tests.record.hostile_suites import hostile_suites
from tests.step_costs import place_step_costs

PROMPT = "Once upon a time there was a dog."
LANES = ["--lane", "gamma=2", "--lane", "drafter=prompt-lookup"]
SHORT = ["--max-new-tokens", "12", "--ignore-eos"]

Record = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("pair"), num_hidden_layers=1)


@pytest.fixture(scope="module", autouse=True)
def home(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Has step costs already; all comparisons of the module share one library."""
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("OMP_NUM_THREADS", "1")
        pair = load_pair(
            PairSpec(draft=f"{folder / 'draft'}", target=f"{folder / 'target'}", threads=1)
        )
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


def test_html_saves_the_verdict_and_a_race(
    saved: Path, folder: Path, suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html = tmp_path / "comparison.html"
    asked = [*LANES, "--suite", str(suite), "--repeats", "2", "--html", str(html)]
    record, told = compared(asked, folder, capsys)
    assert record["runs"]["measured"] == 0
    page = html.read_text(encoding="utf-8")
    assert all(
        json.dumps(text)[1:-1] in page
        for text in (record["verdict"]["text"], *(lane["label"] for lane in record["lanes"]))
    )
    assert f"saved {html}" in told


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
    first = json.loads(saved.read_text())
    assert (first.pop("runs"), again.pop("runs")) == (
        {"kept": 0, "measured": 8},
        {"kept": 8, "measured": 0},
    )
    assert again == first
    anew, said = compared([*asked, "--restart"], folder, capsys)
    assert "kept 8 of 8" in said
    assert anew.pop("runs") == {"kept": 0, "measured": 8}
    assert anew["lanes"][0]["medians"] != again["lanes"][0]["medians"]
    latest, said = compared(asked, folder, capsys)
    assert "8 of 8 runs are kept from before" in said
    assert latest == anew | {"runs": {"kept": 8, "measured": 0}}


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
    assert "Memory: the weights a lane needs." in " ".join(out.split())


def test_a_regression_exits_with_1_and_none_with_0_by_what_is_measured_now(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*LANES, "--prompt", PROMPT, "--repeats", "1"]
    saved, _ = compared(asked, folder, capsys)
    file = tmp_path / "saved.json"
    for factor, code in ((1e-9, 0), (1e9, 1)):  # beyond the widest interval of two pairs
        record = deepcopy(saved)
        for lane in record["lanes"]:
            lane["medians"]["speedup"] *= factor
        file.write_text(json.dumps(record), encoding="utf-8")
        now, _ = compared([*asked, "--against", str(file)], folder, capsys, code)
        assert now["runs"] == {"kept": 0, "measured": 2}
        assert now["against"]["lanes"][0]["below"] == (code == 1)
        assert now["against"]["same_machine"] is True


def test_after_ctrl_c_what_is_kept_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [*LANES, "--prompt", "One day", "--repeats", "2", "--restart"]

    def interrupted(*arguments: Any, **how: Any) -> Iterator[Any]:
        yield next(run_plan(*arguments, **how))
        raise KeyboardInterrupt

    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr("specviz.comparison.comparison_job.run_plan", interrupted)
        assert main(["compare", *asked, *models(folder), *SHORT]) == 130
    assert "1 of 4 runs are kept; the same command goes on" in capsys.readouterr().err
    record, said = compared(asked, folder, capsys)
    assert "1 of 4 runs are kept from before" in said
    assert record["complete"] is True


def test_a_prompt_that_does_not_fit_is_named_before_anything_is_measured(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "suite.jsonl"
    rows = [{"prompt": each} for each in ("Once", "word " * 3000, "upon")]
    suite.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    before = Library().count()
    told = complaint([*LANES, "--suite", str(suite), *models(folder)], capsys)
    assert told.startswith("error: Prompt 2 of 3: The prompt has ")
    assert Library().count() == before


def test_models_that_cannot_be_loaded_leave_nothing_in_the_library(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = Library().comparisons()
    asked = [*LANES, "--prompt", "x", "--draft", str(tmp_path), "--target", str(tmp_path)]
    assert str(tmp_path) in complaint(asked, capsys)
    assert Library().comparisons() == before


# Refused


def complaint(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["compare", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    first, *hints = printed.err.rstrip("\n").split("\n")
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
        ("--lane gamma=2 --lane target=x --prompt x", "a target and no draft"),
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


def test_a_draft_retrained_in_its_folder_is_measured_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_pair(tmp_path / "pair", num_hidden_layers=1)
    pair = load_pair(
        PairSpec(draft=f"{folder / 'draft'}", target=f"{folder / 'target'}", threads=1)
    )
    place_step_costs(pair, "model", "prompt-lookup")
    asked = [*LANES, "--prompt", "The dog ran", "--repeats", "1"]
    first, _ = compared(asked, folder, capsys)
    weights = folder / "draft" / "model.safetensors"
    state = load_file(weights)
    save_file({name: 2 * each for name, each in state.items()}, weights, {"format": "pt"})
    pair = load_pair(
        PairSpec(draft=f"{folder / 'draft'}", target=f"{folder / 'target'}", threads=1)
    )
    place_step_costs(pair, "model", "prompt-lookup")
    second, said = compared(asked, folder, capsys)
    assert "other models" in said
    assert (first["runs"], second["runs"]) == ({"kept": 0, "measured": 2},) * 2
    third, said = compared(asked, folder, capsys)
    assert "2 of 2 runs are kept" in said
    assert third["runs"] == {"kept": 2, "measured": 0}
