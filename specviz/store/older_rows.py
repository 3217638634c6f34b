"""Compute the observed α of rows that an older schema wrote, from the traces of these rows.

A library may hold thousands of traces, and parsing a trace takes long. So the verdicts are counted
in the JSON text, without parsing it. This is safe: a checksum proves that the text is unchanged
since ``trace_to_json`` wrote it, and the text of a token cannot be mistaken for a verdict, because
JSON escapes quotation marks.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence

from specviz.errors import StoreError
from specviz.store.packing import unpacked
from specviz.store.viewpoint import Condition

OlderAlpha = tuple[int, float | None]


def older_alphas(db: sqlite3.Connection, condition: Condition, deadline: float) -> list[OlderAlpha]:
    """Compute α for rows that lack it and fulfil the condition; return (run, α), newest first.

    Stop at ``deadline``, but compute at least one α.
    """
    found: list[OlderAlpha] = []
    text, values = condition
    unread = f"SELECT run FROM runs WHERE unread = 1 AND {text} ORDER BY created DESC"
    for (run,) in db.execute(unread, values):
        found.append((run, _alpha_of(db, run)))
        if time.monotonic() >= deadline:
            break
    return found


def set_older_alphas(db: sqlite3.Connection, found: Sequence[OlderAlpha]) -> None:
    db.executemany(
        "UPDATE runs SET alpha_observed = ?, unread = 0 WHERE run = ?",
        [(alpha, run) for run, alpha in found],
    )


def count_older(db: sqlite3.Connection, condition: Condition) -> int:
    text, values = condition
    found = db.execute(f"SELECT count(*) FROM runs WHERE unread = 1 AND {text}", values)
    return int(found.fetchone()[0])


def _alpha_of(db: sqlite3.Connection, run: int) -> float | None:
    """Return the observed α; None if no candidate was tested, or without a readable trace."""
    body = _body_of(db, run)
    if not isinstance(body, bytes):
        return None
    try:
        text = unpacked(body)
    except StoreError:
        return None
    accepted, rejected = (text.count(f'"verdict":"{each}"') for each in ("accepted", "rejected"))
    return accepted / (accepted + rejected) if accepted + rejected else None


def _body_of(db: sqlite3.Connection, run: int) -> object:
    try:
        found = db.execute("SELECT body FROM traces WHERE run = ?", (run,)).fetchone()
    except sqlite3.DatabaseError as error:
        if not error.sqlite_errorname.startswith("SQLITE_CORRUPT"):
            raise
        return None
    return found[0] if found else None
