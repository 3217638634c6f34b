"""``compare``: end to end on a tiny pair, interrupted and continued, and refused input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from specviz.cli import main
from specviz.comparison.plan_runner import run_plan
from specviz.engine import load_pair
from specviz.record.pairs import PairSpec
from specviz.store import Library
from tests.cli import scored_pair
from tests.cli.fakes import FakeEngine
from tests.cli.scored_pair import models
from tests.engine.models import write_pair
from tests.record.hostile_suites import hostile_suites
from tests.step_costs import place_step_costs

PROMPT = "Once upon a time there was a dog."
LANES = ["--lane", "gamma=2", "--lane", "drafter=prompt-lookup"]
SHORT = ["--max-new-tokens", "12", "--ignore-eos"]

Record = dict[str, Any]


folder, home = scored_pair.folder, scored_pair.home  # fixtures of this module


def compared(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str], code: int = 0
) -> tuple[Record, str]:
    """Return the printed object and standard error."""
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
    requested = [
        *LANES,
        "--suite",
        str(suite),
        "--repeats",
        "2",
        "--title",
        "mine",
        "--out",
        str(out),
    ]
    assert main(["compare", *requested, *models(folder), *SHORT]) == 0
    return out


def test_html_saves_the_verdict_and_a_race(
    saved: Path, folder: Path, suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html = tmp_path / "comparison.html"
    requested = [*LANES, "--suite", str(suite), "--repeats", "2", "--html", str(html)]
    record, output = compared(requested, folder, capsys)
    assert record["runs"]["measured"] == 0
    page = html.read_text(encoding="utf-8")
    assert all(
        json.dumps(text)[1:-1] in page
        for text in (record["verdict"]["text"], *(lane["label"] for lane in record["lanes"]))
    )
    assert f"saved {html}" in output


def test_json_has_lanes_and_verdict(saved: Path) -> None:
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


def test_a_repeated_command_measures_nothing_unless_restarted(
    saved: Path, suite: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requested = [*LANES, "--suite", str(suite), "--repeats", "2"]
    again, message = compared(requested, folder, capsys)
    assert "8 of 8 runs are stored" in message
    assert "loading" not in message
    first = json.loads(saved.read_text())
    assert (first.pop("runs"), again.pop("runs")) == (
        {"kept": 0, "measured": 8},
        {"kept": 8, "measured": 0},
    )
    assert again == first
    restarted, message = compared([*requested, "--restart"], folder, capsys)
    assert "saved 8 of 8" in message
    assert restarted.pop("runs") == {"kept": 0, "measured": 8}
    assert restarted["lanes"][0]["medians"] != again["lanes"][0]["medians"]
    latest, message = compared(requested, folder, capsys)
    assert "8 of 8 runs are stored" in message
    assert latest == restarted | {"runs": {"kept": 8, "measured": 0}}


def test_prints_a_table(
    saved: Path, suite: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    requested = [*LANES, "--suite", str(suite), "--repeats", "2", *models(folder), *SHORT]
    assert main(["compare", *requested]) == 0
    out = capsys.readouterr().out
    for word in ("target alone", "tokens/s", "α expected", "drafting wasted", "story", "code"):
        assert word in out
    assert "2 prompts, 2 repeats" in out
    assert "Memory: a lane's weights." in " ".join(out.split())


def test_against_measures_again_and_exits_with_1_after_a_regression(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requested = [*LANES, "--prompt", PROMPT, "--repeats", "1"]
    saved, _ = compared(requested, folder, capsys)
    file = tmp_path / "saved.json"
    for factor, code in ((1e-30, 0), (1e30, 1)):  # outside the widest interval of two pairs
        record = deepcopy(saved)
        for lane in record["lanes"]:
            lane["medians"]["speedup"] *= factor
        file.write_text(json.dumps(record), encoding="utf-8")
        now, _ = compared([*requested, "--against", str(file)], folder, capsys, code)
        assert now["runs"] == {"kept": 0, "measured": 2}
        assert now["against"]["lanes"][0]["below"] == (code == 1)
        assert now["against"]["same_machine"] is True


def test_reports_saved_runs_after_ctrl_c_and_continues(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    requested = [*LANES, "--prompt", "One day", "--repeats", "2", "--restart"]

    def interrupted(*arguments: Any, **how: Any) -> Iterator[Any]:
        yield next(run_plan(*arguments, **how))
        raise KeyboardInterrupt

    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr("specviz.comparison.comparison_job.run_plan", interrupted)
        assert main(["compare", *requested, *models(folder), *SHORT]) == 130
    assert "saved 1 of 4 runs" in capsys.readouterr().err
    record, message = compared(requested, folder, capsys)
    assert "1 of 4 runs are stored" in message
    assert record["complete"] is True


def test_names_a_prompt_that_does_not_fit_before_measuring(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "suite.jsonl"
    rows = [{"prompt": each} for each in ("Once", "word " * 3000, "upon")]
    suite.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    before = Library().count()
    output = complaint([*LANES, "--suite", str(suite), *models(folder)], capsys)
    assert output.startswith("error: Prompt 2 of 3: The prompt has ")
    assert Library().count() == before


def test_unloadable_models_leave_the_library_empty(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = Library().comparisons()
    requested = [*LANES, "--prompt", "x", "--draft", str(tmp_path), "--target", str(tmp_path)]
    assert str(tmp_path) in complaint(requested, capsys)
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
        ("--lane gamma=2 --lane target=x --prompt x", "a target but no draft"),
        ("--lane gamma=2 --lane gamma=8 --prompt x --repeats 0", "number of repeats is 0"),
        ("--lane gamma=2 --lane gamma=8 --prompt x --gamma 99", "gamma is 99"),
        ("--lane gamma=2 --lane gamma=8 --prompt x --fail-below 0.9", "Add --against"),
        ("--lane gamma=2 --lane gamma=8 --suite nowhere.jsonl", "cannot be read"),
        ("--lane gamma=2 --lane gamma=8 --suite .", "cannot be read"),
        ("--lane gamma=2 --lane gamma=8 --prompt x --against nowhere.json", "cannot be read"),
        ("--lane gamma=2 --lane gamma=8 --prompt x --out nowhere/x.json", "no folder"),
    ],
)
def test_refuses_bad_input_in_one_line_before_loading_a_model(
    engine: FakeEngine, arguments: str, culprit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert culprit in complaint(arguments.split(), capsys)
    assert engine.requested == {}


def test_refuses_hostile_suites_in_one_line(
    engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suites = hostile_suites()
    assert len(suites) >= 50
    before = Library().count()
    for number, content in enumerate(suites):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(content)
        output = complaint([*LANES, "--suite", str(path)], capsys)
        assert len(output) < 400
    assert engine.requested == {}
    assert Library().count() == before


def test_measures_a_retrained_draft_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_pair(tmp_path / "pair", num_hidden_layers=1)
    pair = load_pair(
        PairSpec(draft=f"{folder / 'draft'}", target=f"{folder / 'target'}", threads=1)
    )
    place_step_costs(pair, "model", "prompt-lookup")
    requested = [*LANES, "--prompt", "The dog ran", "--repeats", "1"]
    first, _ = compared(requested, folder, capsys)
    weights = folder / "draft" / "model.safetensors"
    state = load_file(weights)
    save_file({name: 2 * each for name, each in state.items()}, weights, {"format": "pt"})
    pair = load_pair(
        PairSpec(draft=f"{folder / 'draft'}", target=f"{folder / 'target'}", threads=1)
    )
    place_step_costs(pair, "model", "prompt-lookup")
    second, message = compared(requested, folder, capsys)
    assert "other models" in message
    assert (first["runs"], second["runs"]) == ({"kept": 0, "measured": 2},) * 2
    third, message = compared(requested, folder, capsys)
    assert "2 of 2 runs are stored" in message
    assert third["runs"] == {"kept": 2, "measured": 0}
