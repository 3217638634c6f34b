"""``tune``: end to end on a tiny pair, JSON, given costs, and refused input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.store import Library
from specviz.tune import method_runs, surface
from tests.cli import scored_pair
from tests.cli.fakes import FakeEngine
from tests.cli.scored_pair import complaint, models
from tests.engine.models import noisy_copy, small_tokenizer, tiny_model, write_model

SHORT = ["--max-new-tokens", "24", "--ignore-eos", "--temperatures", "0"]
ONE = ["--prompt", "Once upon a time there was a dog.", "--text-budget", "0"]
GIVEN = ["--c", "0.1", "--v", "1.25"]

Record = dict[str, Any]

folder, home = scored_pair.folder, scored_pair.home  # fixtures of this module


@pytest.fixture(scope="module")
def other_draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A better draft for the same target."""
    target = tiny_model(num_hidden_layers=1)
    path = tmp_path_factory.mktemp("other") / "draft"
    return write_model(path, noisy_copy(target, 0.01), small_tokenizer())


def tuned(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[Record, str]:
    """Return the printed object and standard error."""
    capsys.readouterr()
    assert main(["tune", *arguments, *models(folder), *SHORT, "--json"]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    rows = [{"prompt": "Once upon a time", "kind": "story"}, {"prompt": "One day a dog"}]
    path = tmp_path / "suite.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


# Output


def test_json_has_the_surface_the_best_and_the_advice(
    folder: Path, suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, _ = tuned(["--suite", str(suite)], folder, capsys)
    assert {"surface", "best", "advice", "measured", "ranking", "candidates"} <= record.keys()
    places = [(row["gamma"], row["temperature"]) for row in record["surface"]]
    assert sorted(places) == [(gamma, t) for gamma in range(1, 17) for t in (0.0, 0.7)]
    for row in record["surface"]:
        assert row["tau"] >= 1.0
        assert row["low"] is None or row["low"] <= row["speedup"] <= row["high"]
        assert row["num_texts"] == 2
    here = [row for row in record["surface"] if row["temperature"] == 0.7]
    assert record["temperature"] == 0.7
    assert record["best"]["speedup"] == max(row["speedup"] for row in here)
    assert record["advice"]
    assert record["measured"] == []
    assert record["complete"] is True


def test_given_costs_give_exact_speedups(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    record, output = tuned([*ONE, *GIVEN], folder, capsys)
    assert "measuring" not in output
    for row in record["surface"]:
        assert row["speedup"] == pytest.approx(row["tau"] / (0.1 * row["gamma"] + 1.25), rel=1e-9)
    file = tmp_path / "costs.json"
    file.write_text('{"2": 1.1, "5": 1.4}', encoding="utf-8")
    other, _ = tuned([*ONE, "--c", "0", "--verify-costs", str(file)], folder, capsys)
    for row, before in zip(other["surface"], record["surface"], strict=True):
        v = 1.1 + 0.1 * (row["gamma"] - 1)
        assert row["tau"] == before["tau"]
        assert row["speedup"] == pytest.approx(row["tau"] / v, rel=1e-9)


def test_ranks_all_candidates_along_the_same_text(
    folder: Path, other_draft: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requested = [*ONE, *GIVEN, "--draft", str(other_draft), "--candidate", "drafter=prompt-lookup"]
    capsys.readouterr()
    assert main(["tune", *requested, *models(folder), *SHORT, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert len(record["candidates"]) == len(record["ranking"]) == 3
    speeds = [row["speedup"] for row in record["ranking"]]
    assert speeds == sorted(speeds, reverse=True)
    assert record["best"]["label"] == record["ranking"][0]["label"]
    assert [each["texts"] for each in record["candidates"]] == [6, 6, 6]
    alphas = {row["label"]: row["alpha"] for row in record["ranking"]}
    assert sum(each is None for each in alphas.values()) == 1
    assert all(row["reason"] and row["memory_bytes"] for row in record["ranking"])


def test_measures_chosen_cells_and_compares_with_the_expectation(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Library().count()
    record, _ = tuned([*ONE, "--measure", "--cells", "2:0,3:0.7", "--repeats", "2"], folder, capsys)
    assert [(row["gamma"], row["temperature"]) for row in record["measured"]] == [(2, 0), (3, 0.7)]
    expected = {(row["gamma"], row["temperature"]): row["speedup"] for row in record["surface"]}
    for row in record["measured"]:
        assert row["count"] == 2
        assert row["expected"] == expected[row["gamma"], row["temperature"]]
        assert row["speedup"] > 0
        assert row["error"] == pytest.approx(row["speedup"] / row["expected"] - 1)
    assert Library().count() == before + 4


def test_measures_the_best_cell_of_each_temperature_by_default(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, _ = tuned([*ONE, "--measure"], folder, capsys)
    assert [row["temperature"] for row in record["measured"]] == [0.0, 0.7]
    assert record["measured"][1]["gamma"] == record["best"]["gamma"]


@pytest.mark.thorough
def test_races_several_candidates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    requested = [*ONE, "--measure", "--candidate", "drafter=prompt-lookup"]
    record, _ = tuned(requested, folder, capsys)
    labels = [row["label"] for row in record["measured"]]
    assert sorted(labels) == sorted(row["label"] for row in record["ranking"])
    assert [row["count"] for row in record["measured"]] == [6, 6]


METHODS = ("drafter=suffix", "rule=coupled", "rule=block", "num_drafts=2", "branching=2x1")


def test_ranks_and_labels_methods(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs measure the speed of the last two here, but not on another machine."""
    monkeypatch.setenv("SPECVIZ_TIMING_SECONDS", "0.02")
    monkeypatch.setattr(method_runs, "RACED", (2,))
    requested = [*ONE, *(f"--candidate={each}" for each in METHODS)]
    record, _ = tuned(requested, folder, capsys)
    basis = {row["label"]: row["basis"] for row in record["ranking"]}
    assert sorted(basis.values()) == ["at least", *["expected"] * 3, *["measured"] * 2]
    assert (basis["block"], basis["tree 2x1"]) == ("at least", "measured")
    assert [each["runs"] > 0 for each in record["candidates"]] == [False] * 4 + [True] * 2
    assert record["not_ranked"] == []
    given, _ = tuned([*requested, *GIVEN], folder, capsys)
    assert given["not_ranked"] == ["2 drafts", "tree 2x1"]
    assert all(each["runs"] == 0 for each in given["candidates"])


def test_the_table_shows_the_basis_of_each_number(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    requested = [*ONE, *GIVEN, *(f"--candidate={each}" for each in METHODS)]
    assert main(["tune", *requested, *models(folder), *SHORT]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in ("expected along 5 texts", "lower bound: token-by-token acceptance along 5 texts",
                  "at least", "Not ranked: 2 drafts and tree 2x1."):  # fmt: skip
        assert words in out


def test_a_budget_pays_for_further_texts(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surface, "AIM", 0.001)
    record, _ = tuned([*ONE, *GIVEN, "--text-budget", "1"], folder, capsys)
    assert record["best"]["num_texts"] > 5
    assert main(["tune", *ONE, *models(folder), "--text-budget", "-1"]) == 2
    assert "budget for more texts is -1 s" in capsys.readouterr().err


def test_reports_texts_too_short_for_a_round(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requested = ["--max-new-tokens", "1", "--ignore-eos", "--temperatures", "0.7", "--measure"]
    assert main(["tune", *ONE, *models(folder), *requested]) == 0
    assert capsys.readouterr().out.lstrip().startswith("No text is long enough for a whole round.")


def test_prints_a_table(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    requested = [*ONE, *GIVEN, "--candidate", "drafter=prompt-lookup"]
    assert main(["tune", *requested, *models(folder), *SHORT]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in ("T 0 ", "T 0.7", "★", "candidate", "why", "5 texts that the target wrote"):
        assert words in out


# Refused


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ("--prompt x --c nan --v 1", "c is nan."),
        ("--prompt x --c inf --v 1", "c is inf."),
        ("--prompt x --c -1 --v 1", "c is -1."),
        ("--prompt x --c 1e400 --v 1", "c is inf."),
        ("--prompt x --c 1e300 --v 1", "c is 1e+300."),
        ("--prompt x --c 0.1 --v nan", "v(2) is nan."),
        ("--prompt x --c 0.1 --v inf", "v(2) is inf."),
        ("--prompt x --c 0.1 --v 0", "v(2) is 0."),
        ("--prompt x --c cheap --v 1", "argument --c: invalid float value"),
        ("--prompt x --c 0.1", "Costs need both"),
        ("--prompt x --v 1.1", "Costs need both"),
        ("--prompt x --verify-costs nowhere.json", "Costs need both"),
        ("--prompt x --c 0.1 --v 1 --verify-costs nowhere.json", "Costs need both"),
        ("--prompt x --c 0.1 --verify-costs nowhere.json", "nowhere.json"),
        ("--prompt x --c 0.1 --verify-costs .", "."),
        ("--prompt x --c 0.1 --v 1 --measure", "--measure measures this machine"),
        ("--prompt x --temperatures nan", "temperature is nan."),
        ("--prompt x --temperatures 0,inf", "temperature is inf."),
        ("--prompt x --temperatures -1", "temperature is -1.0."),
        ("--prompt x --temperatures 101", "temperature is 101.0."),
        ("--prompt x --temperatures hot", "--temperatures is 'hot'."),
        (f"--prompt x --temperatures {','.join(f'0.{n}' for n in range(10, 27))}",
         "The number of temperatures is 1"),
        ("--prompt x --cells 2:0.7", "--cells needs --measure."),
        ("--prompt x --measure --cells 2", "--cells is '2'."),
        ("--prompt x --measure --cells two:0.7", "--cells is 'two:0.7'."),
        ("--prompt x --measure --cells 2:0.7:1", "--cells is '2:0.7:1'."),
        ("--prompt x --measure --cells 17:0.7", "The surface has no cell 17:0.7."),
        ("--prompt x --measure --cells 0:0.7", "The surface has no cell 0:0.7."),
        ("--prompt x --measure --cells 2:0.3", "The surface has no cell 2:0.3."),
        ("--prompt x --measure --cells 2:nan", "The surface has no cell 2:nan."),
        ("--prompt x --measure --repeats 0", "The number of repeats is 0."),
        ("--prompt x --measure --repeats 101", "The number of repeats is 101."),
        ("--prompt x --budget nan", "--budget is nan."),
        ("--prompt x --budget 3601", "--budget is 3601.0."),
        ("--prompt x --gamma 99", "gamma is 99."),
        ("--prompt x --stop END", "Tune scores whole texts"),
        ("--prompt x --fork 1:1:5=0.5", "Tune scores whole texts"),
        ("--prompt x --candidate rule=over-accept,epsilon=0.1", "over-accept changes the"),
        ("--prompt x --candidate rule=typical,epsilon=0.1", "but rule=typical changes the"),
        ("--prompt x --candidate rule=blocks", "rule is 'blocks'."),
        ("--prompt x --candidate drafter=magic", "drafter is 'magic'."),
        ("--prompt x --candidate drafter=early-exit:0", "drafter is 'early-exit:0'."),
        ("--prompt x --candidate drafter=some.module:Drafter", "does not support custom drafters."),
        ("--prompt x --candidate draft_until=oracle", "The oracle is a bound"),
        ("--prompt x --candidate draft_until=confidence", "draft_until is 'confidence'."),
        ("--prompt x --candidate draft_until=confidence:2", "draft_until has the confidence '2'."),
        ("--prompt x --candidate drafter=suffix,draft_until=cost", "does not work with suffix"),
        ("--prompt x --candidate branching=3x0", "A tree has a branching of 0."),
        ("--prompt x --candidate branching=64x64", "The tree 64x64 has 4,160 nodes."),
        ("--prompt x --candidate num_drafts=17", "num_drafts is 17."),
        ("--prompt x --candidate num_drafts=2,branching=2x1", "num_drafts and branching exclude"),
        ("--prompt x --candidate rule=block,num_drafts=2", "rule=block verifies only one chain."),
        ("--prompt x --candidate replacement=no", "only affects several drafts."),
        ("--prompt x --candidate speed=9", "A lane has no setting 'speed'."),
        ("--prompt x --candidate gamma=8", "A candidate has a different gamma."),
        ("--prompt x --candidate max-new-tokens=5", "A candidate has a different max_new_tokens."),
        ("--prompt x --candidate drafter", "Lane 'drafter' is not key=value"),
        ("--prompt x --candidate draft-body=huge", "'huge'"),
        ("--prompt x --draft a --target b --pair c", "--pair excludes --draft and --target."),
        (f"--prompt x {' '.join(f'--draft {n}' for n in range(10))} --target t",
         "The number of candidates is 10."),
        ("--prompt x --presets", "argument --presets: not allowed with argument --prompt"),
        ("--prompt x --device tpu", "'tpu' is not a device."),
        ("--prompt x --dtype float8", "dtype is 'float8'."),
        ("--suite nowhere.jsonl", "--suite: nowhere.jsonl"),
        ("--suite .", "--suite: ."),
    ],
)  # fmt: skip
def test_refuses_bad_input_in_one_line_before_loading_a_model(
    engine: FakeEngine, arguments: str, culprit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert culprit in complaint(["tune", *arguments.split()], capsys)
    assert engine.requested == {}


@pytest.mark.parametrize("prompt", ["", "\udcff"])
def test_refuses_an_invalid_prompt(
    engine: FakeEngine, prompt: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint(["tune", "--prompt", prompt], capsys).startswith("The prompt is ")
    assert engine.requested == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"[]", b'{"2": "x"}', b'{"1": 1}', b"{" * 50_000, b" " * 100_001,
     b'{"2": ' + b"9" * 400 + b"}", b'{"2": NaN}'],
)  # fmt: skip
def test_refuses_a_bad_cost_file_in_one_line(
    engine: FakeEngine, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "costs.json"
    file.write_bytes(content)
    complaint(["tune", "--prompt", "x", "--c", "0.1", "--verify-costs", str(file)], capsys)
    assert engine.requested == {}


def test_a_draft_alone_is_a_candidate_for_the_default_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names it."""
    missing = str(tmp_path / "no-draft")
    requested = ["tune", *ONE, *GIVEN, "--threads", "1", *SHORT, "--draft", missing]
    assert missing in complaint(requested, capsys)


def test_refuses_a_prompt_longer_than_the_context(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requested = ["tune", "--prompt", "word " * 3000, *GIVEN, *models(folder), *SHORT]
    assert "context holds" in complaint(requested, capsys)
