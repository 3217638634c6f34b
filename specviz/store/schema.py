"""The run library's file: opening, schema, migrations and error messages.

A file of a newer schema or of another program is refused before anything is written to it. Each
migration and its version number are committed in one transaction.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from specviz.errors import StoreError

BUSY_SECONDS = 10.0
_SAFE = "Runs stored earlier are safe."
_ELSEWHERE = "Check its permissions, or set SPECVIZ_HOME to a writable folder."

_FIRST = """
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    note TEXT NOT NULL DEFAULT '',
    created TEXT NOT NULL,
    pair TEXT NOT NULL,
    device TEXT NOT NULL,
    kind TEXT,
    prompt_head TEXT NOT NULL,
    text_head TEXT NOT NULL,
    gamma INTEGER NOT NULL,
    temperature REAL NOT NULL,
    drafter TEXT NOT NULL,
    rule TEXT NOT NULL,
    finish TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    alpha REAL,
    tau REAL,
    tokens_per_second REAL,
    speedup REAL,
    trace_bytes INTEGER NOT NULL,
    words TEXT NOT NULL,
    deleted_at REAL
);
CREATE INDEX runs_by_time ON runs (deleted_at, created);
CREATE TABLE traces (
    run INTEGER PRIMARY KEY REFERENCES runs (run) ON DELETE CASCADE,
    body BLOB NOT NULL
);
CREATE TABLE tags (
    run INTEGER NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
    tag TEXT NOT NULL,
    PRIMARY KEY (run, tag)
) WITHOUT ROWID;
CREATE INDEX tags_by_name ON tags (tag);
"""

_COMPARISONS = """
CREATE TABLE comparisons (
    key TEXT NOT NULL PRIMARY KEY,
    title TEXT NOT NULL,
    plan_json TEXT NOT NULL,
    created TEXT NOT NULL
);
ALTER TABLE runs ADD COLUMN comparison TEXT REFERENCES comparisons (key) ON DELETE SET NULL;
ALTER TABLE runs ADD COLUMN lane INTEGER;
ALTER TABLE runs ADD COLUMN item INTEGER;
ALTER TABLE runs ADD COLUMN repeat INTEGER;
ALTER TABLE runs ADD COLUMN memory_bytes INTEGER;
CREATE INDEX runs_by_comparison ON runs (comparison) WHERE comparison IS NOT NULL;
"""

_INTERVALS = """
ALTER TABLE runs ADD COLUMN speedup_low REAL;
ALTER TABLE runs ADD COLUMN speedup_high REAL
"""

# Earlier schemas stored only expected acceptance. ``older_rows`` fills in existing rows over time.
_OBSERVED_ALPHA = """
ALTER TABLE runs RENAME COLUMN alpha TO alpha_expected;
ALTER TABLE runs ADD COLUMN alpha_observed REAL;
ALTER TABLE runs ADD COLUMN fork TEXT;
ALTER TABLE runs ADD COLUMN unread INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET unread = 1;
CREATE INDEX runs_unread ON runs (created) WHERE unread = 1
"""

_EXPECTED_SPEEDUP = """
ALTER TABLE runs ADD COLUMN speedup_expected REAL
"""

_BODIES = """
ALTER TABLE runs ADD COLUMN bodies TEXT
"""

# Other engines may not report these settings, so the columns become nullable.
_ENGINES = "ALTER TABLE runs ADD COLUMN engine TEXT;" + ";".join(
    f"""
ALTER TABLE runs ADD COLUMN maybe_{name} {kind};
UPDATE runs SET maybe_{name} = {name};
ALTER TABLE runs DROP COLUMN {name};
ALTER TABLE runs RENAME COLUMN maybe_{name} TO {name}"""
    for name, kind in (
        ("gamma", "INTEGER"),
        ("drafter", "TEXT"),
        ("rule", "TEXT"),
        ("tokens", "INTEGER"),
    )
)

_SEEDS = """
ALTER TABLE runs ADD COLUMN seed INTEGER
"""

_ACCEPTED = """
ALTER TABLE runs ADD COLUMN accepted TEXT
"""

_WEIGHTS = """
ALTER TABLE runs ADD COLUMN weights TEXT
"""

# Whose run it is; "" for the owner's runs and for all runs made before logins existed. The index
# leaves these out, so it is empty on a dashboard without logins.
_PERSONS = """
ALTER TABLE runs ADD COLUMN person TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_by_person ON runs (person) WHERE person <> ''
"""

MIGRATIONS = (
    _FIRST,
    _COMPARISONS,
    _INTERVALS,
    _OBSERVED_ALPHA,
    _EXPECTED_SPEEDUP,
    _BODIES,
    _ENGINES,
    _SEEDS,
    _ACCEPTED,
    _WEIGHTS,
    _PERSONS,
)  # the schema version is the number of applied migrations
VERSION = len(MIGRATIONS)


def connect(path: Path) -> sqlite3.Connection:
    """Open the file and migrate it if needed; raises StoreError, sqlite3.Error or OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _check_file(path)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")  # commits survive a power cut
    version = _version(connection)
    _check_version(version, path)
    if version < VERSION:
        _check_ours(connection, version, path)
        _use_write_ahead_log(connection)
        _migrate(connection)


def _check_file(path: Path) -> None:
    """Raise StoreError if the file's write-ahead log contains a schema newer than this program's.

    An ordinary connection could write such a log into the file before the schema is checked. Only
    SQLite opens the file: closing any other descriptor of the file would drop all POSIX locks of
    this process on the file, including those of open connections.
    """
    if not path.exists():
        return
    if not path.is_file():
        raise StoreError(
            "The run library is not a file.",
            remedy="Move it away, or set SPECVIZ_HOME.",
            path=path,
        )
    if path.with_name(f"{path.name}-wal").exists():
        _check_version(_version_in_log(path), path)


def _version_in_log(path: Path) -> int:
    """Return the schema version, including changes in the log, without writing to the file."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)
    try:
        return _version(connection)
    finally:
        connection.close()


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _check_version(version: int, path: Path) -> None:
    if version > VERSION:
        raise StoreError(
            f"The run library has schema {version}: it was written by a newer specviz.",
            remedy=f"Update specviz (this version reads up to {VERSION}), or set SPECVIZ_HOME.",
            path=path,
        )


def _check_ours(connection: sqlite3.Connection, version: int, path: Path) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if version < 0 or (version == 0 and tables):
        # Another process may have created the tables since the version was read.
        if _version(connection) > 0:
            return
        raise StoreError(
            "The file of the run library belongs to another program.",
            remedy="Move it away, or set SPECVIZ_HOME.",
            path=path,
        )


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch to WAL; retry while another process switches, because SQLite does not wait."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _migrate(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in range(_version(connection), VERSION):
            for statement in MIGRATIONS[step].split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {step + 1}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def store_error(error: sqlite3.Error | OSError, path: Path) -> StoreError:
    """Return a StoreError with a remedy for an error of SQLite or of the system."""
    if isinstance(error, sqlite3.Error):
        # Errors of the sqlite3 module itself, and errors from files that are no database, have no
        # error name.
        culprit, remedy = _message_of(getattr(error, "sqlite_errorname", ""), error)
    else:
        culprit, remedy = _unusable(error.strerror or type(error).__name__)
    return StoreError(culprit, remedy=remedy, path=path)


def _message_of(name: str, error: sqlite3.Error) -> tuple[str, str]:
    """Return an error message and a remedy for an error of SQLite."""
    if name.startswith("SQLITE_FULL"):
        return "The disk has no space left for the run library.", f"Free some space. {_SAFE}"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return (
            "The run library is locked by another program.",
            f"Close that program, then retry. {_SAFE}",
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return "The run library cannot be written.", _ELSEWHERE
    if name.startswith("SQLITE_IOERR"):
        return (
            "The disk of the run library is failing or full.",
            f"Check the disk. {_SAFE}",
        )
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_SCHEMA")):
        return (
            "The run library is damaged, or the file is not a run library.",
            "Move the file away; a new library is created. Runs saved as files are not affected.",
        )
    return _unusable(str(error))


def _unusable(reason: str) -> tuple[str, str]:
    return f"The run library cannot be used: {reason}.", _ELSEWHERE
