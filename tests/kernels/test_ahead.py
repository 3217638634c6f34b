"""Compilation in a child process: what it leaves behind, when it starts, and how it may fail."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specviz.kernels.kept_code import sources_digest
from specviz.kernels.product import multiply
from specviz.kernels.readiness import ready
from specviz.kernels.step import step

STARTED = "from specviz.kernels import ahead; ahead.compile_ahead(); print(len(ahead._processes))"
READY = """
from specviz.kernels.readiness import ready
from specviz.kernels.step import step
from specviz.kernels.survey import survey
print(ready("float32"), *[sum(each.stats.cache_hits.values()) for each in (step, survey)])
"""


def output_of(home: Path, code: str, python: Path | None = None) -> list[str]:
    """Return the words a fresh process prints; ``python`` replaces its ``sys.executable``."""
    if python:
        code = f"import sys; sys.executable = {str(python)!r}\n{code}"
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"SPECVIZ_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def states(home: Path) -> dict[Path, int]:
    """Return each file's modification time; skips the marker, which has no suffix."""
    return {path: path.stat().st_mtime_ns for path in home.rglob("*.nb?")}


def copy_code(kernel: Any, folder: Path) -> None:
    """Copy the cached code of a kernel, without that of earlier versions of its source."""
    kept: Any = kernel._cache._cache_file
    for key, name in kept._load_index().items():
        if key[-1] == sources_digest():
            for path in (Path(kept._index_path), Path(kept._data_path(name))):
                copied = folder / path.parent.name / path.name
                copied.parent.mkdir(exist_ok=True)
                shutil.copy2(path, copied)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder filled by the child process, except for the two largest kernels.

    Their code is that of the tests' cache, as compiling them takes long.
    """
    home = tmp_path_factory.mktemp("made")
    assert ready("float32")
    folder = home / "kernels" / sources_digest()
    folder.mkdir(parents=True)
    for kernel in (step, multiply):
        copy_code(kernel, folder)
    assert output_of(home, f"{STARTED}; ahead.wait_for_compilation()") == ["1"]
    return home


@pytest.mark.thorough
def test_the_child_compiles_every_kernel(tmp_path: Path) -> None:
    assert output_of(tmp_path, f"{STARTED}; ahead.wait_for_compilation()") == ["1"]
    before = states(tmp_path)
    assert output_of(tmp_path, READY) == ["True", "1", "1"]
    assert states(tmp_path) == before


def functions_in(code: bytes) -> Iterator[str]:
    """Yield the names of the functions that an object file of Linux (64 bits) defines."""
    sections, width, count = (
        *struct.unpack_from("<Q", code, 40),
        *struct.unpack_from("<HH", code, 58),
    )
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, sections + width * i) for i in range(count)]
    for _, kind, _, _, begin, size, names, *_ in headers:
        if kind != 2:  # no symbol table
            continue
        for place in range(begin, begin + size, 24):
            name, info, _, section = struct.unpack_from("<IBBH", code, place)
            if info & 15 == 2 and section:
                start = headers[names][4] + name
                yield code[start : code.index(0, start)].decode()


@pytest.mark.skipif(sys.platform != "linux", reason="reads object files of Linux")
def test_kernels_share_only_code_that_is_called_apart(made: Path) -> None:
    """A process uses the copy of a function that it loads first; other copies round differently."""
    found = dict[str, set[str]]()
    for path in made.rglob("*.nbc"):
        code = path.read_bytes()
        names = functions_in(code[code.index(b"\x7fELF") :])
        own = [re.match(r"_ZN7specviz7kernels\d+[a-z]+\d+(\D+?)B", each) for each in names]
        kernel = path.name.split(".")[1].split("-")[0]
        found.setdefault(kernel, set()).update(each[1] for each in own if each)
    assert found == {
        "step": {"step", "product", "cached_product", "tiled_product"},
        "multiply": {"multiply", "product"},
        "survey": {"survey"},
        "draw_rows": {"draw_rows"}, "judge_chain": {"judge_chain"},
    }  # fmt: skip


QUANTISED = """
import hashlib, torch
from specviz.engine import load_pair
from specviz.record.pairs import PairSpec
pair = load_pair(PairSpec(name="tinystories", device="cpu", threads=1, target_weights="q8_0"))
step, digest = pair.target_step(160), hashlib.sha256()
for rows in (20, *[1] * 60, *[6] * 8):
    digest.update(step.feed(torch.arange(5, 5 + rows), rows).numpy().tobytes())
print(digest.hexdigest())
"""


@pytest.mark.thorough
def test_a_process_that_compiles_has_the_logits_of_one_that_loads(tmp_path: Path) -> None:
    compiling, loading = (output_of(tmp_path, QUANTISED) for _ in range(2))
    assert compiling == loading


@pytest.fixture
def unmarked(made: Path, tmp_path: Path) -> Path:
    """The same code without its marker file."""
    home = tmp_path / "unmarked"
    shutil.copytree(made, home)
    _mark_in(home).unlink()
    return home


def _mark_in(home: Path) -> Path:
    (mark,) = (path for path in home.rglob("*") if path.is_file() and not path.suffix)
    return mark


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


def test_cached_code_is_found_and_not_compiled_again(made: Path) -> None:
    before = states(made)
    assert output_of(made, READY) == ["True", "1", "1"]
    assert before
    assert states(made) == before


def test_does_not_start_if_the_code_is_cached(made: Path) -> None:
    assert output_of(made, STARTED) == ["0"]


def test_does_not_start_without_a_writable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert output_of(tmp_path / "file", STARTED) == ["0"]


def test_a_failed_child_leaves_compilation_to_first_use(unmarked: Path, tmp_path: Path) -> None:
    broken = program(tmp_path / "broken", "exit 1")
    assert output_of(unmarked, STARTED + READY, broken) == ["1", "True", "1", "1"]
    assert output_of(unmarked, STARTED, broken) == ["0"]


def test_ignores_a_child_that_cannot_start(tmp_path: Path) -> None:
    assert output_of(
        tmp_path, f"{STARTED}; ahead.wait_for_compilation()", tmp_path / "nowhere"
    ) == ["0"]


def test_exiting_does_not_wait_for_the_child(tmp_path: Path) -> None:
    slow = program(tmp_path / "slow", f"sleep 20; touch {tmp_path}/over")
    assert output_of(tmp_path, STARTED, slow) == ["1"]
    assert not (tmp_path / "over").exists()


def test_kills_a_child_that_takes_too_long(tmp_path: Path) -> None:
    slow = program(tmp_path / "slow", "exec sleep 60")
    limited = STARTED.replace(
        "ahead.compile_ahead()", "ahead._MOST_SECONDS = 0.1; ahead.compile_ahead()"
    )
    began = time.monotonic()
    ended = (
        "ahead.wait_for_compilation(); print(ahead.is_compiling(), ahead._processes[0].returncode)"
    )
    assert output_of(tmp_path, f"{limited}; {ended}", slow) == ["1", "False", "-9"]
    assert time.monotonic() - began < 30
