"""Rows of the run library as they are written: their values, names, notes and tags."""

from __future__ import annotations

import sqlite3
import unicodedata
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from specviz.errors import StoreError
from specviz.store.queries import storable
from specviz.store.rows import NewRun, RunSummary
from specviz.store.viewpoint import (
    SHARED,
    Viewpoint,
    not_yours,
    only_owner_shares,
    openable,
    own,
)

MAX_NAME = 200
MAX_TAGS = 20
MAX_TAG = 40
MAX_NOTE = 4000
_GIVEN_LATER = ("comparison", "lane", "item", "repeat", "memory_bytes")
_COLUMNS = tuple(each.name for each in fields(RunSummary))


def values_of(run: NewRun, viewpoint: Viewpoint) -> dict[str, Any]:
    """Return the columns of a new run. Only the owner stores runs of other persons."""
    lane, item, repeat = run.job or (None, None, None)
    return {each: getattr(run.summary, each) for each in _COLUMNS} | {
        "id": run.run_id or uuid.uuid4().hex,
        "name": checked_name(run.name),
        "words": "",
        "comparison": run.comparison,
        "lane": lane,
        "item": item,
        "repeat": repeat,
        "memory_bytes": run.memory_bytes,
        "person": run.person if viewpoint.sees_all else viewpoint.person,
    }


def add_row(
    db: sqlite3.Connection, viewpoint: Viewpoint, values: dict[str, Any], body: bytes
) -> None:
    number = _insert(db, viewpoint, values | {"trace_bytes": len(body)})
    db.execute("INSERT OR IGNORE INTO traces (run, body) VALUES (?, ?)", (number, body))
    index_words(db, [number])


def copy_of(db: sqlite3.Connection, viewpoint: Viewpoint, body: bytes) -> str | None:
    """Return the id of a run that the person can open and that has exactly this trace."""
    condition, values = openable(viewpoint)
    found = db.execute(
        "SELECT id FROM runs JOIN traces USING (run) "
        f"WHERE trace_bytes = ? AND {condition} AND body = ?",
        (len(body), *values, body),
    ).fetchone()
    return found[0] if found else None


def number_to_change(db: sqlite3.Connection, viewpoint: Viewpoint, run_id: str) -> int | None:
    """Return the row number of a run that the person can change; None if there is no such run.

    Raises:
        StoreError: The person can open the run, but cannot change it.
    """
    for condition, mine in ((own(viewpoint), True), (openable(viewpoint), False)):
        text, values = condition
        found = db.execute(
            f"SELECT run FROM runs WHERE id = ? AND {text}", (storable(run_id), *values)
        ).fetchone()
        if found is not None:
            if not mine:
                raise not_yours()
            return int(found[0])
    return None


def set_tags(db: sqlite3.Connection, viewpoint: Viewpoint, run: int, tags: Sequence[str]) -> None:
    """Replace the tags of a run.

    Raises:
        StoreError: A new tag would share the run, and the person is not the owner.
    """
    kept = {tag for (tag,) in db.execute("SELECT tag FROM tags WHERE run = ?", (run,))}
    if not viewpoint.sees_all and any(map(_looks_shared, set(tags) - kept)):
        raise only_owner_shares()
    db.execute("DELETE FROM tags WHERE run = ?", (run,))
    db.executemany("INSERT INTO tags (run, tag) VALUES (?, ?)", [(run, tag) for tag in tags])


def _looks_shared(tag: str) -> bool:
    """Return whether the tag is ``SHARED`` or reads like it, for example in capital letters."""
    folded = unicodedata.normalize("NFKC", tag).casefold()
    return "".join(each for each in folded if each.isalpha()) == SHARED


def set_shared(db: sqlite3.Connection, run: int, *, shared: bool) -> None:
    statement = (
        "INSERT OR IGNORE INTO tags (run, tag) VALUES (?, ?)"
        if shared
        else "DELETE FROM tags WHERE run = ? AND tag = ?"
    )
    db.execute(statement, (run, SHARED))
    index_words(db, [run])


def _insert(db: sqlite3.Connection, viewpoint: Viewpoint, values: dict[str, Any]) -> int:
    given = {n: storable(each) if isinstance(each, str) else each for n, each in values.items()}
    placeholders = ", ".join(f":{name}" for name in given)
    later = ", ".join(f"{each} = coalesce(excluded.{each}, {each})" for each in _GIVEN_LATER)
    mine = "" if viewpoint.sees_all else " WHERE runs.person = excluded.person"
    added = db.execute(
        f"INSERT INTO runs ({', '.join(given)}) VALUES ({placeholders}) ON CONFLICT (id) DO UPDATE "
        f"SET {later}, name = iif(excluded.name = '', name, excluded.name){mine} RETURNING run",
        given,
    ).fetchone()
    if added is None:
        raise not_yours()
    return int(added[0])


def index_words(db: sqlite3.Connection, runs: Sequence[int]) -> None:
    """Update the text in which searches find a run.

    The text is case-folded here, because SQLite would fold only ASCII.
    """
    for run in runs:
        texts = db.execute(
            "SELECT name, note, prompt_head, text_head FROM runs WHERE run = ?", (run,)
        ).fetchone()
        tags = db.execute("SELECT tag FROM tags WHERE run = ?", (run,)).fetchall()
        words = "\n".join([*texts, *(tag for (tag,) in tags)]).casefold()
        db.execute("UPDATE runs SET words = ? WHERE run = ?", (words, run))


def checked_name(name: str) -> str:
    name = " ".join(name.split())
    if len(name) > MAX_NAME:
        raise StoreError(f"The name has {len(name)} characters.", remedy=f"Use at most {MAX_NAME}.")
    return storable(name)


def checked_note(note: str) -> str:
    if len(note) > MAX_NOTE:
        raise StoreError(f"The note has {len(note)} characters.", remedy=f"Use at most {MAX_NOTE}.")
    return storable(note)


def checked_tags(tags: Iterable[str]) -> list[str]:
    wanted = sorted({storable(" ".join(tag.split())) for tag in tags} - {""})
    own_tags = [tag for tag in wanted if tag != SHARED]
    if len(own_tags) > MAX_TAGS or any(len(tag) > MAX_TAG for tag in own_tags):
        raise StoreError(
            "There are too many tags, or a tag is too long.",
            remedy=f"Use at most {MAX_TAGS} tags of at most {MAX_TAG} characters.",
        )
    return wanted
