"""Bad input: one line that names the culprit, exit code 2, and no model loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from specviz.__main__ import start
from specviz.cli import COMMANDS as COMMANDS_OF_THE_PROGRAM
from specviz.cli import main
from specviz.cli.options import build_parser
from specviz.store import Library, save_trace, trace_to_json
from tests.cli.fakes import FakeEngine
from tests.traces import make_trace

HEAVY = "{'torch', 'transformers', 'streamlit'}"
COMMANDS = (
    "run|show|bench|compare|score|tune|audit|doctor|attach|models|costs|train|winrate|load|settings"
    "|info"
)


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        encoding="utf-8",
    )


def complaint(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the command's error line, after checking its form."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    first, *hints = printed.err.rstrip("\n").split("\n")
    assert first.startswith("error: ")
    assert all(hint.startswith("try: python -m specviz") for hint in hints)
    assert len(hints) <= 1
    return first.removeprefix("error: ")


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ("--gamma 0", "gamma is 0."),
        ("--gamma -1", "gamma is -1."),
        ("--gamma 1000", "gamma is 1000."),
        ("--gamma 2.5", "argument --gamma: invalid int value: '2.5'"),
        ("--temperature -1", "temperature is -1.0."),
        ("--temperature nan", "temperature is nan."),
        ("--temperature inf", "temperature is inf."),
        ("--temperature warm", "argument --temperature: invalid float value: 'warm'"),
        ("--top-k -1", "top_k is -1."),
        ("--top-p 0", "top_p is 0."),
        ("--top-p 1.5", "top_p is 1.5."),
        ("--max-new-tokens 0", "max_new_tokens is 0."),
        ("--seed -1", "seed is -1."),
        ("--rule over-accept --epsilon 2", "epsilon is 2.0."),
        ("--epsilon 0.1", "The run has epsilon, which only affects rule=over-accept or typical."),
        ("--residual target", "The run has residual, which only affects rule=over-accept."),
        ("--stop=", "A stop string is empty."),
        ("--fork 7:2", "'7:2' is not a fork."),
        ("--fork 7:2:99>5", "A fork has a token, but draws decide"),
        ("--threads 0", "threads is 0."),
        ("--threads 100000", "threads is 100000."),
        ("--device tpu", "'tpu' is not a device."),
        ("--device cuda:x", "'cuda:x' is not a device."),
        ("--dtype float8", "dtype is 'float8'."),
        ("--drafter oracle", "drafter is 'oracle'."),
        ("--suffix-texts library", "--suffix-texts needs --drafter suffix."),
        ("--drafter suffix --suffix-texts /no/such", "--suffix-texts: there is no file /no/such."),
        ("--step fast", "argument --step: invalid choice: 'fast'"),
        ("--pair a --draft b", "--pair excludes --draft and --target."),
        ("--draft b", "--draft needs --target."),
        ("--target b --drafter model", "--target needs --draft."),
        ("--nonsense", "unrecognized arguments: --nonsense"),
        ("--out /no/such/folder/trace.json", "--out: there is no folder /no/such/folder."),
    ],
)
def test_refuses_a_bad_setting_before_loading_a_model(
    arguments: str,
    culprit: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = FakeEngine(monkeypatch)
    assert complaint(["run", "Once", *arguments.split()], capsys).startswith(culprit)
    assert engine.requested == {}


def test_quotes_only_part_of_a_long_unparsable_argument(capsys: pytest.CaptureFixture[str]) -> None:
    message = complaint(["run", "Once", "x" * 20_000], capsys)
    assert message.startswith("unrecognized arguments: xxx")
    assert len(message) < 650


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["dance"], f"argument {COMMANDS}: invalid choice: 'dance'"),
        (["run"], "the following arguments are required: PROMPT"),
        (["run", ""], "The prompt is empty."),
        (["run", "\udcff"], "The prompt is not UTF-8."),
        (["bench", "--repeats", "0"], "repeats is 0."),
        (["bench", "--target", "x"], "--target needs --draft."),
        (["bench", "--device", "tpu"], "'tpu' is not a device."),
        (["compare", "--lane", "gamma=2", "--presets", "--dtype", "float8"], "dtype is 'float8'."),
    ],
)
def test_refuses_a_bad_command(
    arguments: list[str], culprit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint(arguments, capsys).startswith(culprit)


COMMANDS_WITH_A_PAIR = (
    ["run", "Once"],
    ["bench"],
    ["bench", "--gpu"],
    ["compare", "--lane", "gamma=2", "--lane", "gamma=4", "--presets"],
    ["score", "--prompt", "Once"],
    ["tune"],
    ["tune", "--c", "0.1", "--v", "1"],
    ["audit"],
    ["winrate"],
)


@pytest.mark.parametrize("empty", ["", " ", "\t\n", "\u00a0\u3000"])
@pytest.mark.parametrize(
    "option",
    [
        ["--pair"],
        ["--target"],
        ["--draft"],
        ["--target", "t", "--draft"],
        ["--draft", "d", "--target"],
    ],
)
@pytest.mark.parametrize("command", COMMANDS_WITH_A_PAIR, ids=" ".join)
def test_refuses_an_empty_model_name(
    command: list[str],
    option: list[str],
    empty: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = FakeEngine(monkeypatch)
    assert complaint([*command, *option, empty], capsys).startswith(f"{option[-1]} is empty.")
    assert engine.requested == {}


def test_refuses_an_empty_draft_among_several(capsys: pytest.CaptureFixture[str]) -> None:
    message = complaint(["tune", "--draft", "d", "--draft", ""], capsys)
    assert message.startswith("--draft is empty.")


def test_refuses_a_folder_as_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = complaint(["run", "Once", "--out", str(tmp_path)], capsys)
    assert message.startswith(f"--out: {tmp_path} is a folder.")


def test_refuses_a_folder_without_write_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Permissions alone are not enough: an administrator may write anywhere.
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path)
    message = complaint(["run", "Once", "--out", str(tmp_path / "trace.json")], capsys)
    assert "cannot be written" in message


def test_replaces_only_a_file_in_a_writable_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    message = complaint(["run", "Once", "--out", os.devnull], capsys)
    assert message.startswith(f"--out: {os.devnull} is not a file.")
    older = tmp_path / "trace.json"
    older.touch()
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path)
    assert "cannot be written" in complaint(["run", "Once", "--out", str(older)], capsys)


def test_checking_the_output_path_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    complaint(["run", "", "--out", str(tmp_path / "trace.json")], capsys)
    complaint(["run", "Once", "--gamma", "0", "--out", str(tmp_path / "trace.json")], capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize("kind", ["missing", "truncated", "unknown schema", "not JSON", "bytes"])
def test_refuses_a_file_that_is_not_a_trace(
    kind: str, as_json: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.json"
    whole = trace_to_json(make_trace())
    contents = {
        "truncated": whole[: len(whole) // 2].encode(),
        "unknown schema": json.dumps({**json.loads(whole), "schema": 999}).encode(),
        "not JSON": b"hello",
        "bytes": b"\xff\xfe\x00",
    }
    if kind in contents:
        path.write_bytes(contents[kind])
    assert str(path) in complaint(["show", str(path), *as_json], capsys)


def test_names_the_path_of_an_unreadable_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    (tmp_path / "runs.db").write_text("no database")

    def command(_options: object) -> int:
        Library().find()
        return 0

    monkeypatch.setitem(COMMANDS_OF_THE_PROGRAM, "show", command)
    message = complaint(["show", "x"], capsys)
    assert message.startswith("The run library is damaged")
    assert message.endswith(f"The run library is {tmp_path / 'runs.db'}.")


def test_every_option_has_help_and_its_default() -> None:
    commands: Any = next(a for a in build_parser()._actions if a.dest == "command")
    for name, parser in commands.choices.items():
        for action in parser._actions:
            assert action.help, (name, action.dest)
    shown = " ".join(commands.choices["run"].format_help().split())
    for default in ("(default: model;", "(default: lossless)", "(default: 0)", "(default: auto"):
        assert default in shown


def test_help_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    assert "--max-new-tokens" in capsys.readouterr().out


def test_importing_the_command_line_loads_no_models_and_no_page() -> None:
    done = run_python(f"import sys, specviz.cli; print({HEAVY} & set(sys.modules))")
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_show_needs_no_models(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    save_trace(make_trace(), path)
    code = (
        "import sys; from specviz.cli import main; code = main(sys.argv[1:]);"
        f"loaded = {HEAVY} & set(sys.modules); sys.exit(f'loaded {{loaded}}' if loaded else code)"
    )
    done = run_python(code, "show", str(path))
    assert (done.stderr, done.returncode) == ("", 0)
    assert "→·w12" in done.stdout


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "specviz", "run", "Once", "--gamma", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: gamma is 0.")
    assert done.stderr.count("\n") == 1


def test_ctrl_c_during_the_imports_prints_one_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(types.ModuleType):
        @property
        def main(self) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "specviz.cli", Interrupted("specviz.cli"))
    assert start() == 130
    assert capsys.readouterr().err == "\ninterrupted\n"


def test_a_closed_pipe_exits_silently(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    save_trace(make_trace(["aar"] * 3000), path)
    show = subprocess.Popen(
        [sys.executable, "-m", "specviz", "show", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert show.stdout is not None
    assert show.stderr is not None
    show.stdout.readline()
    show.stdout.close()
    errors = show.stderr.read()
    show.stderr.close()
    assert show.wait(60) == 141
    assert errors == b""


@pytest.mark.parametrize(
    "encoding",
    ["ascii", *(pytest.param(each, marks=pytest.mark.thorough) for each in ("latin-1", "utf-8"))],
)
def test_prints_in_any_terminal_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "trace.json"
    save_trace(make_trace(), path)
    done = subprocess.run(
        [sys.executable, "-m", "specviz", "show", str(path)],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "w10 w11" in done.stdout.decode(encoding)
