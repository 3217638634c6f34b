"""The quota of the run library: delete the oldest runs until the library fits.

Runs in the trash are deleted first, then single runs, then runs of comparisons. Within each kind,
the oldest runs are deleted first. A run with a name, a tag or a note is never deleted. The size of
the library counts only the pages in use of its file, because SQLite uses the pages of deleted runs
again.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Generator
from pathlib import Path

from specviz.store.schema import connect, store_error
from specviz.values import Value

_KEPT = "name != '' OR note != '' OR EXISTS (SELECT 1 FROM tags WHERE tags.run = runs.run)"
_OLDEST = (
    f"SELECT run, id, trace_bytes FROM runs WHERE NOT ({_KEPT}) "
    "ORDER BY deleted_at IS NULL, comparison IS NOT NULL, created, run LIMIT ? OFFSET ?"
)
_AT_ONCE = 100
_SMALL_ENOUGH = 500 * 10**6  # bytes in use up to which the file is made smaller: that takes seconds
_MUCH_UNUSED = 50 * 10**6


class Trimmed(Value):
    """What was deleted, and the bytes that the library then used."""

    deleted: int
    used: int

    def exceeds(self, quota: int) -> bool:
        """Return whether the library is still too large, because all other runs must be kept."""
        return self.used > quota


def used_bytes(path: Path) -> int:
    """Return the bytes that the library uses; 0 if there is no library.

    Raises:
        StoreError: The library cannot be read.
    """
    if not path.exists():
        return 0
    with _opened(path) as db:
        return _used(db)


def trim_library(path: Path, quota: int, *, keep: Collection[str] = ()) -> Trimmed:
    """Delete runs until the library at ``path`` uses at most ``quota`` bytes.

    All runs are deleted in one transaction, so no other process can save a run meanwhile.

    Args:
        keep: Ids of runs that are not deleted, such as the run that was just saved.

    Raises:
        StoreError: The library cannot be read or written.
    """
    if not path.exists():
        return Trimmed(deleted=0, used=0)
    with _opened(path) as db:
        if (used := _used(db)) <= quota:
            return Trimmed(deleted=0, used=used)
        db.execute("BEGIN IMMEDIATE")
        try:
            deleted = _delete_oldest(db, quota, frozenset(keep))
            db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                db.rollback()
            raise
        _shrink(db)
        return Trimmed(deleted=deleted, used=_used(db))


def _delete_oldest(db: sqlite3.Connection, quota: int, keep: frozenset[str]) -> int:
    deleted = skipped = 0
    while (over := _used(db) - quota) > 0:
        found = db.execute(_OLDEST, (_AT_ONCE, skipped)).fetchall()
        if not found:
            break
        for run, run_id, size in found:
            if run_id in keep:
                skipped += 1
            elif over > 0:
                db.execute("DELETE FROM runs WHERE run = ?", (run,))
                over -= size
                deleted += 1
    return deleted


def _shrink(db: sqlite3.Connection) -> None:
    """Make the file smaller if much of it is unused and the rest is quickly copied."""
    unused = _pragma(db, "freelist_count") * _pragma(db, "page_size")
    if unused > _MUCH_UNUSED and _used(db) < _SMALL_ENOUGH:
        with contextlib.suppress(sqlite3.Error):  # another process is saving, or the disk is full
            db.execute("VACUUM")


def _used(db: sqlite3.Connection) -> int:
    pages = _pragma(db, "page_count") - _pragma(db, "freelist_count")
    return pages * _pragma(db, "page_size")


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


@contextlib.contextmanager
def _opened(path: Path) -> Generator[sqlite3.Connection]:
    try:
        with contextlib.closing(connect(path)) as db:
            yield db
    except (sqlite3.Error, OSError) as error:
        raise store_error(error, path) from error
