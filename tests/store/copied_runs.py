"""Many rows for tests of a large library, copied in the database."""

from __future__ import annotations

import sqlite3


def copy_first_run(db: sqlite3.Connection, copies: int) -> None:
    """Add copies of the first run's row, without its trace: id1, id2 and so on."""
    names = [each[1] for each in db.execute("PRAGMA table_info(runs)")]
    copied = ", ".join(each for each in names if each not in ("run", "id"))
    db.execute(
        f"INSERT INTO runs (id, {copied}) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL "
        f"SELECT i + 1 FROM n WHERE i < {copies}) SELECT 'id' || i, {copied} FROM n, runs "
        "WHERE runs.run = 1"
    )
