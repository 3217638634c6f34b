"""What SQLite and the system say of the library's file, in the user's words."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from specviz.errors import StoreError
from specviz.store.schema import damaged

_SAFE = "What was kept before is still there."


def refusal(error: sqlite3.Error | OSError, path: Path) -> StoreError:
    if isinstance(error, sqlite3.Error):
        # Errors of the Python module itself have no code, nor has what is no database at all.
        return _of_database(getattr(error, "sqlite_errorname", ""), error, path)
    reason = error.strerror or str(error)
    return StoreError(f"{path} cannot be used: {reason}.", remedy=_elsewhere())


def _of_database(name: str, error: sqlite3.Error, path: Path) -> StoreError:
    if name.startswith("SQLITE_FULL"):
        return StoreError(f"There is no room left for {path}.", remedy=f"Free some. {_SAFE}")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreError(
            f"{path} is held by another program.", remedy=f"End that program, then retry. {_SAFE}"
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return StoreError(f"{path} cannot be written.", remedy=_elsewhere())
    if name.startswith("SQLITE_IOERR"):
        return StoreError(
            f"{path}: the disk does not answer, or is full.", remedy=f"Check the disk. {_SAFE}"
        )
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_SCHEMA")):
        return damaged(path)
    return StoreError(f"{path} cannot be used: {error}.", remedy=_elsewhere())


def _elsewhere() -> str:
    return "Check its permissions, or set SPECVIZ_HOME to a folder of yours."
