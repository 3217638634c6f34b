"""Closed or full standard streams, and unwritable paths: at most one line."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.record.numbers import SIZE
from specviz.record.prompts import MAX_SUITE_BYTES
from specviz.store import Library, load_trace, save_trace
from tests.cli.fakes import FakeEngine
from tests.traces import make_trace

FULL = "/dev/full"
LONG = "a" * 300

# The command line with a fake engine, in its own process.
PROGRAM = """
import sys
import pytest
from tests.cli.fakes import FakeEngine, fake_bench
patch = pytest.MonkeyPatch()
FakeEngine(patch)
fake_bench(patch, {})
from specviz.cli import main
sys.exit(main(sys.argv[1:]))
"""

full_device = pytest.mark.skipif(not os.path.exists(FULL), reason="there is no /dev/full")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    save_trace(make_trace(["ard", "aaa"]), path)
    return path


def closing(*descriptors: int) -> Callable[[], None]:
    def close() -> None:
        for each in descriptors:
            os.close(each)

    return close


def called(words: list[str], **streams: object) -> subprocess.CompletedProcess[str]:
    settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        **(settings | streams),  # type: ignore[arg-type]
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the error line, after checking that nothing else was printed."""
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


# Each command is a process of its own, so some run only in the thorough tests.
COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "show": lambda saved: ["show", str(saved)],
    "show --json": lambda saved: ["show", str(saved), "--json"],
    "run": lambda _: ["run", "Once"],
    "run --json": lambda _: ["run", "Once", "--json"],
    "help": lambda _: ["compare", "--help"],
}


def for_commands(*now: str, thorough: tuple[str, ...]) -> pytest.MarkDecorator:
    later = [pytest.param(each, marks=pytest.mark.thorough) for each in thorough]
    return pytest.mark.parametrize("name", [*now, *later])


# Standard output


@full_device
@for_commands("show", "run --json", thorough=("show --json", "run", "help"))
def test_a_full_standard_output_is_one_line(saved: Path, name: str) -> None:
    with open(FULL, "w") as full:
        done = called(COMMANDS[name](saved), stdout=full)
    complaints = [line for line in done.stderr.splitlines() if "library says" not in line]
    assert complaints == [
        "error: Standard output cannot be written: No space left on device. "
        "Redirect standard output to a disk with free space."
    ]
    assert done.returncode == 2
    assert len(Library().find()) == (name == "run --json")  # stored all the same


@for_commands("help", thorough=("show --json", "run --json"))
def test_a_closed_standard_output_is_one_line(saved: Path, name: str) -> None:
    done = called(COMMANDS[name](saved), preexec_fn=closing(1))
    assert one_line(done).startswith("Standard output is closed.")


@full_device
def test_bench_on_a_full_standard_output() -> None:
    with open(FULL, "w") as full:
        done = called(["bench", "--json"], stdout=full)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: Standard output cannot be written")
    assert "Traceback" not in done.stderr


def test_nothing_is_loaded_for_a_closed_standard_output() -> None:
    done = called(["run", "Once"], preexec_fn=closing(1))
    assert one_line(done).startswith("Standard output is closed.")
    assert "a library says hello" not in done.stderr
    assert not Library().find()


# Standard error


@for_commands("run", thorough=("show --json", "help"))
def test_a_closed_standard_error_changes_nothing_else(
    saved: Path, name: str, engine: FakeEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    words = COMMANDS[name](saved)
    done = called(words, preexec_fn=closing(2))
    assert (done.returncode, done.stderr) == (0, "")
    assert main(words) == 0
    assert done.stdout == capfd.readouterr().out


@full_device
@pytest.mark.parametrize(
    "words",
    [["run", "Once", "--json"], pytest.param(["bench", "--json"], marks=pytest.mark.thorough)],
)
def test_a_full_standard_error_changes_nothing_else(words: list[str]) -> None:
    with open(FULL, "w") as full:
        done = called(words, stderr=full)
    assert done.returncode == 0
    assert json.loads(done.stdout)


@full_device
def test_a_refusal_without_standard_error_is_an_exit_code() -> None:
    with open(FULL, "w") as full:
        refused = called(["run", "Once", "--gamma", "0"], stderr=full)
    assert (refused.returncode, refused.stdout) == (2, "")


def test_writes_the_whole_file_with_closed_streams(saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "replay.html"
    assert main(["show", str(saved), "--html", str(out)]) == 0
    whole = out.read_bytes()
    out.unlink()
    done = called(["show", str(saved), "--html", str(out)], preexec_fn=closing(0, 2))
    assert (done.returncode, done.stdout) == (0, "")
    assert out.read_bytes() == whole


# Standard input


def test_a_closed_standard_input_is_one_line() -> None:
    message = one_line(called(["run", "-"], preexec_fn=closing(0)))
    assert message.startswith("Standard input is closed.")


def test_a_standard_input_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with (tmp_path / "only written").open("w") as file:
        message = one_line(called(["run", "-"], stdin=file))
    assert message.startswith("Standard input cannot be read: Bad file descriptor.")


def test_a_standard_input_without_an_end_is_one_line() -> None:
    with open("/dev/zero", "rb") as endless:
        message = one_line(called(["run", "-"], stdin=endless))
    assert message.startswith(f"Standard input is larger than {SIZE.shown(MAX_SUITE_BYTES)}.")


# Output paths


@pytest.mark.parametrize(
    "words",
    [
        ["run", "Once", "--out"],
        ["show", "trace.json", "--html"],
        ["compare", "--lane", "gamma=2", "--lane", "gamma=3", "--prompt", "x", "--out"],
        ["compare", "--lane", "gamma=2", "--lane", "gamma=3", "--prompt", "x", "--html"],
        ["compare", "--lane", "gamma=2", "--lane", "gamma=3", "--prompt", "x", "--against"],
        ["compare", "--lane", "gamma=2", "--lane", "gamma=3", "--suite"],
    ],
)
@pytest.mark.parametrize("name", [LONG, f"{LONG}/x", "x/" * 3000, "a\0b", "trace.json/x"])
def test_refuses_an_impossible_file_name_in_one_line(
    engine: FakeEngine,
    saved: Path,
    words: list[str],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(saved.parent)
    assert main([*words, name]) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith(f"error: {words[-1]}: ")
    assert (printed.out, engine.requested) == ("", {})


def test_refuses_a_broken_link(
    engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "missing" / "trace.json")
    assert main(["run", "Once", "--out", str(link)]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert engine.requested == {}


def test_saves_a_run_when_the_disk_is_full_for_its_file(
    engine: FakeEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    out = tmp_path / "trace.json"
    assert main(["run", "Once", "--json", "--out", str(out)]) == 2
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "library says" not in each]
    assert "No space left on device" in line
    assert not out.exists()
    assert [row.summary.finish for row in Library().find()] == ["length"]


def test_the_file_equals_the_saved_run(engine: FakeEngine, tmp_path: Path) -> None:
    assert main(["run", "Once", "--json", "--out", str(tmp_path / "trace.json")]) == 0
    (row,) = Library().find()
    assert Library().open(row.id) == load_trace(tmp_path / "trace.json")
