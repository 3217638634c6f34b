"""``score``: acceptance along a text, token by token, and refused texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.theory.along import rounds_along
from tests.cli import scored_pair
from tests.cli.fakes import FakeEngine
from tests.cli.scored_pair import complaint, models

PROMPT = "Once upon a time there was a dog."
SHORT = ["--max-new-tokens", "30", "--ignore-eos"]

folder, home = scored_pair.folder, scored_pair.home  # fixtures of this module


def scored(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["score", *arguments, *models(folder), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def written(tmp_path: Path, text: str | bytes) -> str:
    file = tmp_path / "text.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


def test_scores_the_targets_own_text_token_by_token(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = scored(["--prompt", PROMPT, *SHORT, "--top-k", "50"], folder, capsys)
    assert (record["own"], record["impossible_at"], record["prompt"]) == (True, None, PROMPT)
    assert record["law"] == {"temperature": 0.7, "top_k": 50, "top_p": 1.0}
    odds = [row["odds"] for row in record["tokens"]]
    assert len(odds) == 30
    assert record["odds"] == pytest.approx(sum(odds) / 30)
    assert all(0 <= row[name] <= 1 for row in record["tokens"] for name in ("odds", "overlap"))
    assert sum(row["count"] for row in record["token_kinds"]) == 30
    for row in record["tau"]:
        walk = rounds_along(odds, row["gamma"])
        assert row["tau"] == pytest.approx(walk.tokens / walk.rounds)
    assert [row["gamma"] for row in record["tau"]] == list(range(1, 17))


def test_scores_a_given_text_unchanged(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "Once upon a time there was a little girl")
    record = scored(["--text-file", file], folder, capsys)
    assert record["own"] is False
    shown = record["prompt"] + "".join(row["text"] for row in record["tokens"])
    assert shown.endswith("a little girl")
    greedy = scored(["--text-file", file, "--temperature", "0"], folder, capsys)
    at = greedy["impossible_at"]
    assert at is not None
    assert greedy["tokens"][at]["target_prob"] == 0.0
    assert greedy["tau"] == []


def test_prints_a_summary(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("NO_COLOR", "1")
    file = written(tmp_path, "Once upon a \x1b[31mtime there was a ball")
    assert main(["score", "--text-file", file, *models(folder)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "This text was not written by the target" in " ".join(out.split())
    assert main(["score", "--text-file", file, "--temperature", "0", *models(folder)]) == 0
    assert "has probability 0" in " ".join(capsys.readouterr().out.split())
    assert main(["score", "--prompt", PROMPT, *SHORT, *models(folder)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "The target wrote this text with these settings." in out
    assert "tokens per round" in out


# Refused


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ("", "one of the arguments --text-file --prompt is required"),
        ("--prompt x --text-file y", "not allowed with argument --prompt"),
        ("--text-file nowhere.txt", "--text-file: nowhere.txt"),
        ("--text-file .", "--text-file: ."),
        ("--prompt x --temperature nan", "temperature is nan."),
        ("--prompt x --temperature -1", "temperature is -1.0."),
        ("--prompt x --top-p 0", "top_p is 0."),
        ("--prompt x --max-new-tokens 0", "max_new_tokens is 0."),
        ("--prompt x --stop END", "Tune scores whole texts"),
        ("--prompt x --fork 1:1:5=0.5", "Tune scores whole texts"),
        ("--prompt x --draft a", "--draft needs --target."),
        ("--prompt x --target a", "--target needs --draft."),
        ("--prompt x --pair a --draft b", "--pair excludes --draft and --target."),
        ("--prompt x --rule over-accept", "unrecognized arguments: --rule"),
        ("--prompt x --drafter prompt-lookup", "unrecognized arguments: --drafter"),
    ],
)
def test_refuses_bad_input_in_one_line_before_loading_a_model(
    engine: FakeEngine, arguments: str, culprit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert culprit in complaint(["score", *arguments.split()], capsys)
    assert engine.requested == {}


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        (b"", "has no text"),
        (b" \n\t\r\n ", "has no text"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"caf\xe9", "UTF-8"),
        (b"\xed\xa0\x80", "UTF-8"),
        (b"x" * 2_000_000, "text.txt"),
    ],
)
def test_refuses_an_empty_or_invalid_text_file_before_loading_a_model(
    engine: FakeEngine, content: bytes, culprit: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = written(tmp_path, content)
    assert culprit in complaint(["score", "--text-file", file], capsys)
    assert engine.requested == {}


@pytest.mark.parametrize(
    ("text", "culprit"), [("a", "single token"), ("word " * 3000, "context holds")]
)
def test_refuses_a_text_that_does_not_fit(
    folder: Path, text: str, culprit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requested = ["score", "--text-file", written(tmp_path, text), *models(folder)]
    assert culprit in complaint(requested, capsys)


def test_names_models_that_cannot_be_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requested = ["score", "--prompt", "x", "--draft", str(tmp_path), "--target", str(tmp_path)]
    assert str(tmp_path) in complaint(requested, capsys)
