"""Comparisons in the run library: their rows, and the runs that belong to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

from specviz.errors import StoreError
from specviz.store.queries import storable
from specviz.store.rows import ComparisonRow
from specviz.store.viewpoint import Condition, Viewpoint, no_comparisons, readable, whole_comparison

ALL: Condition = ("1", [])


def begin(
    db: sqlite3.Connection, viewpoint: Viewpoint, key: str, plan_json: str, title: str
) -> None:
    """Add a comparison, unless a comparison with this key exists already."""
    if not viewpoint.sees_all:
        raise no_comparisons()
    created = datetime.now(UTC).isoformat(timespec="milliseconds")
    db.execute(
        "INSERT OR IGNORE INTO comparisons (key, title, plan_json, created) VALUES (?, ?, ?, ?)",
        (storable(key), storable(title), storable(plan_json), created),
    )


def jobs(db: sqlite3.Connection, viewpoint: Viewpoint, key: str) -> dict[tuple[int, int, int], str]:
    condition, values = readable(viewpoint)
    found = db.execute(
        f"SELECT lane, item, repeat, id FROM runs WHERE comparison = ? AND {condition} "
        "AND lane IS NOT NULL ORDER BY run",
        (storable(key), *values),
    ).fetchall()
    return {(lane, item, repeat): run_id for lane, item, repeat, run_id in found}


def with_key(key: str) -> Condition:
    return "key = ?", [storable(key)]


def rows(
    db: sqlite3.Connection, viewpoint: Viewpoint, wanted: Condition = ALL
) -> tuple[ComparisonRow, ...]:
    """Return the wanted comparisons that the person sees, newest first."""
    parts: Sequence[Condition] = (wanted, whole_comparison(viewpoint))
    counted = (
        "(SELECT count(*) FROM runs WHERE comparison = comparisons.key AND deleted_at IS NULL)"
    )
    found = db.execute(
        f"SELECT key, title, plan_json, created, {counted} FROM comparisons "
        f"WHERE {' AND '.join(text for text, _ in parts)} ORDER BY created DESC, rowid DESC",
        [value for _, values in parts for value in values],
    ).fetchall()
    return tuple(
        ComparisonRow(key=key, title=title, plan_json=plan, created=created, num_runs=count)
        for key, title, plan, created, count in found
    )


def no_comparison(key: str) -> StoreError:
    return StoreError(
        f"There is no comparison {key!r:.40} in the library.",
        remedy="Choose one under Kept, on the Compare page.",
    )
