"""Runs that the command line refuses: one line, exit code 2, nothing written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import constants

from specviz import ASSETS
from specviz.cli import main
from specviz.engine.loading import hardware
from tests.cli.tiny_models import folder, forked, home, models
from tests.engine.models import small_tokenizer, tiny_model, write_model

__all__ = ["folder", "home"]  # fixtures


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(folder, tmp_path / "copied"))


def refused(arguments: list[str], out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the error line, after checking that the folder of ``out`` is unchanged."""
    before = files_in(out.parent)
    capsys.readouterr()
    assert main([*arguments, "--json", "--out", str(out)]) == 2
    assert files_in(out.parent) == before
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.endswith(".\n")
    assert printed.err.count("\n") == 1
    return printed.err


def files_in(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder / "trace.json"


@pytest.mark.parametrize(
    ("prompt", "settings", "culprit"),
    [
        ("", "", "The prompt is empty."),
        ("Once", "--gamma 0", "gamma is 0."),
        ("Once", "--gamma -1", "gamma is -1."),
        ("Once", "--gamma 1000", "gamma is 1000."),
        ("Once", "--temperature -1", "temperature is -1.0."),
        ("Once", "--temperature nan", "temperature is nan."),
        ("Once " * 600, "", "tokens; the pair's context holds 512."),
        ("Once", "--chat", "has no chat template."),
        ("Once", "--device cuda:99", "no device cuda:99."),
    ],
)
def test_refuses_bad_settings(
    prompt: str,
    settings: str,
    culprit: str,
    folder: Path,
    out: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = refused(["run", prompt, *models(folder), *settings.split()], out, capsys)
    assert culprit in message


def test_a_refusal_does_not_change_an_older_trace(
    folder: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out.write_text("older")
    refused(["run", "Once " * 600, *models(folder)], out, capsys)
    assert out.read_text() == "older"


def cut_short(side: Path) -> None:
    file = side / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def leave_a_pickle(side: Path) -> None:
    (side / "model.safetensors").rename(side / "pytorch_model.bin")


def empty(side: Path) -> None:
    for file in side.iterdir():
        file.unlink()


def change_the_vocabulary(side: Path) -> None:
    tokenizer = small_tokenizer(300)
    tokenizer.add_tokens([f"<{number}>" for number in range(20)])
    write_model(side, tiny_model(num_hidden_layers=1), tokenizer)


@pytest.mark.parametrize("role", ["draft", "target"])
@pytest.mark.parametrize(
    ("spoil", "culprit"),
    [
        (cut_short, "The weights file model.safetensors of {} is truncated or broken."),
        (leave_a_pickle, "{} holds a pickle checkpoint (pytorch_model.bin)"),
        (empty, "{} contains no model: config.json is missing."),
        (shutil.rmtree, "The folder or file '{}' does not exist."),
        (change_the_vocabulary, "different tokenizers"),
    ],
)
def test_refuses_broken_models(
    role: str,
    spoil: Callable[[Path], None],
    culprit: str,
    copied: Path,
    out: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoil(copied / role)
    message = refused(["run", "Once", *models(copied)], out, capsys)
    assert culprit.format(copied / role) in message


def test_refuses_an_unknown_pair(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(["run", "Once", "--pair", "nonsense"], out, capsys)
    assert "There is no embedded pair 'nonsense'." in message


def test_reports_an_unreachable_hub(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    message = refused(["run", "Once", *models(folder), "--target", "us/nothing"], out, capsys)
    assert "us/nothing is not in the local cache and the Hub cannot be reached." in message


def test_reports_out_of_memory(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hardware, "free_memory", lambda _device: 1000)
    message = refused(["run", "Once", *models(folder)], out, capsys)
    assert "does not fit in the memory of the device." in message


def damages(whole: str) -> dict[str, str]:
    record = json.loads(whole)
    return {
        "truncated": whole[: len(whole) // 2],
        "of an unknown schema": json.dumps(record | {"schema": 999}),
        "not JSON": "Once upon a time",
        "another object": json.dumps({"pair": "toy"}),
    }


@pytest.mark.parametrize(
    "damage", ["truncated", "of an unknown schema", "not JSON", "another object"]
)
def test_refuses_a_damaged_trace(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(damages((ASSETS / "first_trace.json").read_text())[damage])
    assert main(["show", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: {path} ")
    assert printed.err.count("\n") == 1


@pytest.mark.thorough  # in this process each refusal is tested, and a refused process by bad input
def test_a_refused_process_shows_no_traceback(copied: Path, out: Path) -> None:
    cut_short(copied / "target")
    asked = ["run", "Once", *models(copied), "--json", "--out", str(out)]
    code, printed, errors = forked(asked, copied)
    assert (code, printed, errors.count("\n")) == (2, "", 1)
    assert errors.startswith("error: ")
    assert not out.exists()
