"""``winrate`` on a tiny pair, and its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specviz.cli import main
from tests.cli.tiny_models import home
from tests.engine.models import write_pair

__all__ = ["home"]  # fixture
SHORT = ["--max-new-tokens", "6", "--texts", "2", "--epsilons", "0.3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("pair"), num_hidden_layers=1)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    lines = (json.dumps({"prompt": each}) for each in ("the cat", "a dog"))
    path = tmp_path / "suite.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def arguments(folder: Path, suite: Path, home: Path) -> list[str]:
    models = ["--target", str(folder / "target"), "--draft", str(folder / "draft")]
    return ["winrate", *models, "--suite", str(suite), "--threads", "1", *SHORT]


def test_table_and_sentences_then_json_without_new_runs(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert "OPT, ε 0.3" in out
    assert "Control" in out
    assert "text 20 of 20" in err
    assert main([*arguments, "--json", "--scorer", "distance"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["measure"], found["texts_per_prompt"]) == ("distance", 2)
    assert "20 of 20 texts are stored already" in err


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (["--temperature", "0"], "nothing to compare"),
        (["--epsilons", "1.5"], "at most 1"),
        (["--epsilons", "0.1,x"], "--epsilons is '0.1,x'"),
        (["--rules", "lossless"], "--rules is 'lossless'"),
        (["--rules", ""], "--rules is ''"),
        (["--scorer", "best"], "no scorer 'best'"),
        (["--scorer", "judge:http://127.0.0.1:1"], "up to 80 requests"),
        (["--confirm"], "need a judge"),
        (["--judged-pairs", "0"], "--judged-pairs is 0"),
        (["--texts", "0"], "texts per prompt is 0"),
        (["--scorer", "judge:http://127.0.0.1:1", "--confirm", "--judge-prompt", "/nothing"],
         "--judge-prompt"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_line(
    arguments: list[str], changed: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *changed]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert says in line
