"""``train``: from the target's texts to a draft that loads, paused and continued, refused input."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main, train
from specviz.cli.options import build_parser
from specviz.formats.heads import read_head
from specviz.local_models.naming import with_head
from specviz.record.pairs import PairSpec
from specviz.training.drafts import numbered_files, training_job
from specviz.training.drafts.plan import TextPlan
from specviz.training.drafts.progress import Trained
from specviz.training.drafts.training_job import TrainingJob
from tests.cli import tiny_models
from tests.cli.scored_pair import complaint
from tests.engine.models import write_pair
from tests.machines import LAPTOP
from tests.traces import make_costs

home = tiny_models.home  # a fixture of this module

SMALL = ["--texts", "12", "--longest", "24", "--steps", "6", "--batch", "4", "--length", "24",
         "--vocabulary", "64"]  # fmt: skip


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("pair"), num_hidden_layers=4) / "target"


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_job, "stored_costs", lambda *_: make_costs())
    monkeypatch.setattr("specviz.engine.body_room", lambda _: LAPTOP)


def trained(target: Path, out: Path, *more: str) -> list[str]:
    return ["train", "--target", f"{target}", "--out", f"{out}", "--threads", "1", *SMALL, *more]


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_training_ends_with_a_draft_that_loads(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = printed(trained(target, tmp_path / "out", "--export", "speculators"), capsys)
    draft, exported = record["draft"], record["export"]
    assert exported["engine"] == "vLLM"
    assert exported["folder"] in exported["command"]
    assert read_head(Path(exported["folder"])).layout == "speculators"  # type: ignore[union-attr]
    assert "## Acceptance on held-out texts" in Path(draft["folder"], "README.md").read_text()
    again = printed(["train", "--out", f"{tmp_path / 'out'}", "--export", "eagle"], capsys)
    assert again["export"]["engine"] == "SGLang"
    assert read_head(Path(again["export"]["folder"])).layout != "speculators"  # type: ignore[union-attr]
    assert len(draft["accepted"]) == len(draft["agreeing"]) == 3
    assert [each["gamma"] for each in record["expected"]] == list(range(1, 9))
    assert record["best_gamma"] in range(1, 9)
    assert record["texts"]["tokens"] > 0
    assert record["costs"]["c_is_predicted"]
    spec = with_head(PairSpec(target=f"{target}", draft=draft["folder"]))
    assert spec.head == "eagle"
    short = ["--max-new-tokens", "4", "--threads", "1", "--no-baseline", "--no-keep"]
    pair = ["--target", f"{target}", "--draft", draft["folder"]]
    assert main(["run", "Once", *pair, *short]) == 0


def test_ctrl_c_pauses_and_the_same_command_goes_on(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    take = TrainingJob._take

    def interrupted(job: TrainingJob, value: object) -> None:
        take(job, value)
        if isinstance(value, Trained) and value.step == 3:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingJob, "_take", interrupted)
        assert main(trained(target, tmp_path)) == train.INTERRUPTED
    said = capsys.readouterr()
    assert said.out == ""
    assert "paused at step 3" in said.err
    assert "Repeat the command to continue." in said.err
    assert main(trained(target, tmp_path)) == 0
    said = capsys.readouterr()
    assert "training: 4 of 6" in said.err
    assert "training: 3 of 6" not in said.err
    assert "acceptance on held-out texts" in said.out


def test_a_started_training_keeps_its_share_of_tasks(tmp_path: Path) -> None:
    def share(*more: str) -> float:
        options = build_parser().parse_args(
            ["train", "--target", "x", "--out", str(tmp_path), *more]
        )
        return train._plan(options).texts.task_share

    assert share() == TextPlan().task_share
    stated = {"name": "x", "texts": {"count": 8}}  # of a version without tasks
    (tmp_path / "plan.json").write_text(json.dumps(stated))
    assert share() == 0.0
    assert share("--task-share", "0.3") == 0.3


def test_the_estimate_trains_nothing(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "--target", f"{target}", "--estimate"]
    record = printed(arguments, capsys)
    assert record["predicted"]
    assert record["seconds"] == pytest.approx(
        record["writing"] + record["computing"] + record["training"]
    )
    assert main(arguments) == 0
    assert capsys.readouterr().out.strip().startswith("predicted: c about ")


def test_prompts_come_from_the_suite(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "suite.jsonl"
    suite.write_text('{"prompt": "Once upon"}\n{"prompt": "One day"}\n', encoding="utf-8")
    record = printed(trained(target, tmp_path / "out", "--suite", f"{suite}"), capsys)
    assert record["plan"]["texts"]["prompts"] == ["Once upon", "One day"]


# Refused


def test_a_folder_of_another_target_is_refused(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan.json").write_text('{"target": "another"}', encoding="utf-8")
    assert "has the texts of another target" in complaint(trained(target, tmp_path)[:], capsys)


def test_a_full_disk_is_one_line(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numbered_files, "save_file", full)
    said = complaint(trained(target, tmp_path), capsys)
    assert "cannot be written: No space left on device." in said
    assert "Free some space" in said


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ("--steps 5", "Training needs a folder."),
        ("--out x --texts 7", "count is 7."),
        ("--out x --longest 9000", "longest is 9000."),
        ("--out x --rate 2", "rate is 2."),
        ("--out x --steps 0", "steps is 0."),
        ("--out x --positions 9", "positions is 9."),
        ("--out x --device tpu", "'tpu' is not a device."),
        ("--out x --threads 0", "threads is 0."),
        ("--out x --target http://127.0.0.1:9", "--target is an address."),
        ("--out x --kind dflash", "argument --kind: invalid choice: 'dflash'"),
        ("--out x --presets --suite y", "argument --suite: not allowed with argument --presets"),
    ],
)
def test_bad_input_is_refused(
    arguments: str, culprit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint(["train", *arguments.split()], capsys).startswith(culprit)


@pytest.mark.parametrize("text", ["", "\n \n", "{"])
def test_an_empty_or_damaged_file_of_prompts_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "suite.jsonl"
    suite.write_text(text, encoding="utf-8")
    said = complaint(["train", "--out", "x", "--suite", f"{suite}"], capsys)
    assert "suite.jsonl" in said
    assert not Path("x").exists()


def test_a_target_without_a_known_shape_has_no_estimate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("specviz.engine.body_room", lambda _: replace(LAPTOP, target=None))
    assert "shape" in complaint(["train", "--estimate"], capsys)
