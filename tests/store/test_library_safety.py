"""Durability and atomicity of the run library under kills, full disks and concurrent writers."""

from __future__ import annotations

import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from select import select

import pytest

from specviz.errors import StoreError
from specviz.record.trace import Trace
from specviz.store import Library, Query, save_trace, schema
from specviz.store.saving import save_run
from tests.traces import full_trace, make_trace

ROOT = Path(__file__).parent.parent.parent
KILLS = 15


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace(["aar", "rdd", "aaa"] * 40)


@pytest.fixture(scope="module")
def trace_file(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("trace") / "run.json"
    save_trace(trace, file)
    return file


def start_writer(path: Path, trace_file: Path, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.store.writing", str(path), str(trace_file), str(count)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as db:
        whole = db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return whole and not db.execute("PRAGMA foreign_key_check").fetchall()


def counts(path: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(path)) as db:
        return tuple(  # pyright: ignore[reportReturnType]
            db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("runs", "traces")
        )


def test_two_processes_write_concurrently(path: Path, trace: Trace, trace_file: Path) -> None:
    """The file does not exist yet, so both create it."""
    writers = [start_writer(path, trace_file, 25) for _ in range(2)]
    printed = [writer.communicate(timeout=60)[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    library = Library(path)
    assert {row.id for row in library.find()} == {each for ids in printed for each in ids}
    assert library.count() == 50
    assert library.open(printed[0][0]) == library.open(printed[1][-1]) == trace
    assert sound(path)


def test_a_killed_writer_loses_no_reported_run(path: Path, trace: Trace, trace_file: Path) -> None:
    """Writers are killed at random moments, the first possibly while it creates the file."""
    chance = random.Random(20260101)
    reported: list[str] = []
    for _ in range(KILLS):
        # A fork saves each writer the start-up of Python; it ends only by the kill.
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _write_until_killed(path, trace, writer)
        os.close(writer)
        output = _read_reports(reader, chance.randrange(4))
        time.sleep(chance.uniform(0.002, 0.12))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reader, "rb") as rest:
            output += rest.read()
        *whole, _ = output.decode().split("\n")
        reported += whole
        assert sound(path)
    assert len(reported) > KILLS
    library = Library(path)
    kept = {row.id for row in library.find()}
    assert set(reported) <= kept
    assert len(kept) <= len(reported) + KILLS  # at most one stored but unreported run per kill
    assert counts(path) == (len(kept), len(kept))
    for run_id in kept:
        assert library.open(run_id) == trace


def _read_reports(reader: int, count: int) -> bytes:
    """Read the writer's output until it has reported ``count`` runs."""
    output = b""
    while output.count(b"\n") < count:
        assert select([reader], [], [], 60.0)[0], "the writer hangs"
        read = os.read(reader, 4096)
        assert read, "the writer ended by itself"
        output += read
    return output


def _write_until_killed(path: Path, trace: Trace, writer: int) -> None:
    try:
        library = Library(path)
        while True:
            os.write(writer, f"{save_run(library, trace)}\n".encode())
    finally:
        os._exit(1)


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte, where mounting is allowed."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(library: Library, trace: Trace) -> tuple[list[str], StoreError]:
    made: list[str] = []
    for _ in range(2000):
        try:
            made.append(save_run(library, trace))
        except StoreError as error:
            return made, error
    raise AssertionError("it never filled up")


def _check_full(library: Library, trace: Trace, made: list[str]) -> None:
    assert made
    assert {row.id for row in library.find()} == set(made)
    assert library.open(made[-1]) == trace
    assert counts(library.path) == (len(made), len(made))
    assert sound(library.path)


def test_a_full_disk_keeps_stored_runs(small_disk: Path, trace: Trace) -> None:
    library = Library(small_disk / "runs.db")
    (small_disk / "ballast").write_bytes(b"x" * 400_000)
    made, error = _fill(library, trace)
    assert "no space" in error.culprit or "full" in error.culprit
    (small_disk / "ballast").unlink()
    _check_full(library, trace, made)
    save_run(library, trace)  # with free space again


def test_a_full_database_keeps_stored_runs(
    path: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = schema.connect

    def limited(path: Path) -> sqlite3.Connection:
        connection = real(path)
        connection.execute("PRAGMA max_page_count = 60")
        return connection

    with monkeypatch.context() as patch:
        patch.setattr("specviz.store.library.connect", limited)
        made, error = _fill(Library(path), trace)
    assert "no space left" in error.culprit
    _check_full(Library(path), trace, made)


# Unusable files and folders


def test_a_read_only_folder_is_an_error(tmp_path: Path) -> None:
    save_run(Library(tmp_path / "runs.db"), full_trace())
    before = (tmp_path / "runs.db").read_bytes()
    code = (
        "import os, sys; from pathlib import Path\n"
        "from specviz.store.saving import save_run; from specviz.store import Library\n"
        "from specviz.errors import StoreError; from tests.traces import full_trace\n"
        "trace = full_trace(); path = Path(sys.argv[1])\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: save_run(Library(path), trace)\n"
        "except StoreError as error: print(error)\n"
    )
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    for folder in [tmp_path, *tmp_path.parents][:3]:
        folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "runs.db")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "cannot be" in done.stdout, done.stderr
    assert "Check its permissions" in done.stdout
    assert (tmp_path / "runs.db").read_bytes() == before


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a file")
    with pytest.raises(StoreError, match="cannot be used"):
        save_run(Library(tmp_path / "plain" / "runs.db"), make_trace())
    assert os.listdir(tmp_path) == ["plain"]


def test_reading_the_library_drops_no_lock_of_the_process(path: Path, trace: Trace) -> None:
    """Without its lock, a writer's log would be unlinked by the next process that closes."""
    library = Library(path)
    save_run(library, trace)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE runs SET note = 'by the writer'")
        assert library.count() == 1
        other = subprocess.run(
            [sys.executable, "-c", _TAKE_ALL, str(path)], capture_output=True, text=True, check=True
        )
        assert other.stdout.strip() == "database is locked"
        writer.execute("COMMIT")
    assert [row.note for row in library.find()] == ["by the writer"]


_TAKE_ALL = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0).execute("PRAGMA journal_mode = DELETE")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_a_locked_library_is_an_error_for_writers_only(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.store.schema.BUSY_SECONDS", 0.1)
    library = Library(path)
    save_run(library, make_trace())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked by another program"):
            save_run(library, make_trace())
        assert library.count() == 1  # reading still works
        db.execute("ROLLBACK")
    save_run(library, make_trace())
    assert library.count() == 2


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0", b"\0" * 5000])
def test_a_file_that_is_no_database_is_not_changed(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for act in (lambda: Library(path).find(), lambda: save_run(Library(path), make_trace())):
        with pytest.raises(StoreError, match="is damaged"):
            act()
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == [path.name]


def test_a_folder_instead_of_the_file_is_an_error(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreError, match="is not a file"):
        Library(path).find()


def _of_sqlite(name: str) -> sqlite3.Error:
    error = sqlite3.OperationalError("unable")
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(5, "Input/output error", "/secret/place"),
        OSError("of /secret/place"),
        sqlite3.ProgrammingError("closed"),
        *(
            _of_sqlite(f"SQLITE_{name}")
            for name in ("FULL", "BUSY", "READONLY_DIRECTORY", "IOERR_WRITE", "CORRUPT", "MISUSE")
        ),
    ],
    ids=str,
)
def test_the_path_is_only_in_the_full_error_text(error: sqlite3.Error | OSError) -> None:
    made = schema.store_error(error, Path("/secret/place/runs.db"))
    assert "secret" not in str(made)
    assert made.in_full.endswith("The run library is /secret/place/runs.db.")
    again = pickle.loads(pickle.dumps(made))
    assert (type(again), str(again), again.in_full) == (StoreError, str(made), made.in_full)


@pytest.mark.parametrize("content", ["no database", "a folder", "another program's", "newer"])
def test_the_path_of_an_unusable_file_is_only_in_the_full_error_text(
    path: Path, content: str
) -> None:
    if content == "a folder":
        path.mkdir()
    elif content == "no database":
        path.write_text(content)
    else:
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE theirs (x)")
            db.execute(f"PRAGMA user_version = {99 if content == 'newer' else 0}")
            db.commit()
    with pytest.raises(StoreError) as caught:
        Library(path).find()
    assert str(path.parent) not in str(caught.value)
    assert str(path) in caught.value.in_full


def test_damaged_database_pages_raise_store_errors(path: Path, trace: Trace) -> None:
    library = Library(path)
    made = [save_run(library, trace) for _ in range(20)]
    content = bytearray(path.read_bytes())
    chance = random.Random(1)
    for start in range(8192, len(content), 4096):
        content[start : start + 64] = chance.randbytes(64)
    path.write_bytes(content)
    refused = 0
    for run_id in made:
        try:
            library.open(run_id)
        except StoreError as error:
            refused += "damaged" in error.culprit
    assert refused
    with pytest.raises(StoreError, match="damaged"):
        library.find(Query(search="w1"))


def test_a_damaged_trace_affects_no_other_run(path: Path, trace: Trace) -> None:
    library = Library(path)
    bad, good = save_run(library, trace), save_run(library, trace)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE traces SET body = substr(body, 1, 50) WHERE run = 1")
    with pytest.raises(StoreError, match="damaged") as caught:
        library.open(bad)
    assert caught.value.remedy.startswith("Delete this run")
    assert library.open(good) == trace
    assert library.count() == 2


@pytest.mark.parametrize(("column", "value"), [("id", b"\xff"), ("gamma", "many"), ("kind", b"k")])
def test_a_row_with_a_wrong_type_is_rejected(path: Path, column: str, value: object) -> None:
    library = Library(path)
    save_run(library, full_trace(), name="a")
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"UPDATE runs SET {column} = ?", (value,))
        db.commit()
    with pytest.raises(StoreError, match="A run of the library is damaged"):
        library.find()
