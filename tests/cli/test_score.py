"""``score``: acceptance along a text, token by token, and the texts that it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.theory.along import rounds_along
from tests.cli.fakes import FakeEngine
from tests.cli.scored_pair import complaint, home_of_a_pair, models

PROMPT = "Once upon a time there was a dog."
SHORT = ["--max-new-tokens", "30", "--ignore-eos"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pair")


@pytest.fixture(scope="module", autouse=True)
def home(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with home_of_a_pair(tmp_path_factory.mktemp("home"), folder):
        yield


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


def test_what_the_target_writes_is_scored_token_by_token(
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


def test_a_given_text_is_scored_as_it_is(
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


def test_lines_for_people(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("NO_COLOR", "1")
    file = written(tmp_path, "Once upon a \x1b[31mtime there was a ball")
    assert main(["score", "--text-file", file, *models(folder)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "not the target's words" in " ".join(out.split())
    assert main(["score", "--text-file", file, "--temperature", "0", *models(folder)]) == 0
    assert capsys.readouterr().out.lstrip().startswith("This text is impossible under this law")
    assert main(["score", "--prompt", PROMPT, *SHORT, *models(folder)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "The target wrote them under this law." in out
    assert "tokens a round" in out


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
        ("--prompt x --stop END", "Expectations are of whole texts"),
        ("--prompt x --fork 1:1:5=0.5", "Expectations are of whole texts"),
        ("--prompt x --draft a", "--draft has no --target."),
        ("--prompt x --target a", "--target has no --draft."),
        ("--prompt x --pair a --draft b", "--pair comes with --draft or --target."),
        ("--prompt x --rule over-accept", "unrecognized arguments: --rule"),
        ("--prompt x --drafter prompt-lookup", "unrecognized arguments: --drafter"),
    ],
)
def test_bad_input_is_told_in_a_line_before_any_model(
    engine: FakeEngine, arguments: str, culprit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert culprit in complaint(["score", *arguments.split()], capsys)
    assert engine.asked == {}


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        (b"", "has no words"),
        (b" \n\t\r\n ", "has no words"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"caf\xe9", "UTF-8"),
        (b"\xed\xa0\x80", "UTF-8"),
        (b"x" * 2_000_000, "text.txt"),
    ],
)
def test_a_file_without_words_is_refused_before_any_model(
    engine: FakeEngine, content: bytes, culprit: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = written(tmp_path, content)
    assert culprit in complaint(["score", "--text-file", file], capsys)
    assert engine.asked == {}


@pytest.mark.parametrize(
    ("text", "culprit"), [("a", "single token"), ("word " * 3000, "context holds")]
)
def test_a_text_that_does_not_fit_is_refused(
    folder: Path, text: str, culprit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["score", "--text-file", written(tmp_path, text), *models(folder)]
    assert culprit in complaint(asked, capsys)


def test_models_that_cannot_be_loaded_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["score", "--prompt", "x", "--draft", str(tmp_path), "--target", str(tmp_path)]
    assert str(tmp_path) in complaint(asked, capsys)
