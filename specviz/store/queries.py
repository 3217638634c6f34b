"""SQL of the run library, and conversion of its rows. Values are always bound parameters."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import msgspec

from specviz.errors import StoreError
from specviz.store.rows import Facets, Query, RunRow, RunSummary, SortKey
from specviz.store.viewpoint import EVERYTHING, Condition, Viewpoint, live, own, seen

_SUMMARY = tuple(each.name for each in fields(RunSummary))
_TAGS = "(SELECT json_group_array(tag) FROM tags WHERE tags.run = runs.run)"
COLUMNS = (*_SUMMARY, "id", "name", "note", "comparison", "lane", "item", "repeat",
           "memory_bytes", "trace_bytes", "person")  # fmt: skip
# A caller names one of these keys, so no text from a caller becomes SQL.
_SORTED: dict[SortKey, str] = {
    "created": "created",
    "name": "name COLLATE NOCASE",
    "pair": "pair COLLATE NOCASE",
    "kind": "kind",
    "gamma": "gamma",
    "temperature": "temperature",
    "tokens": "tokens",
    "alpha_observed": "alpha_observed",
    "tau": "tau",
    "tokens_per_second": "tokens_per_second",
    "speedup": "speedup",
}
_LARGEST = 2**63 - 1  # largest SQLite integer


def where_clause(query: Query, viewpoint: Viewpoint = EVERYTHING) -> Condition:
    """Return a WHERE clause for the runs that the person sees, and the values to bind."""
    parts = [_deleted(query), *_visible(query, viewpoint), *_searched(query), *_tagged(query)]
    parts += _among("pair", query.pairs) + _among("rule", query.rules)
    parts += _among("finish", query.finishes) + _among("drafter", query.drafters)
    parts += _among("bodies", query.bodies)
    parts += _among("gamma", query.gammas) + _among("temperature", query.temperatures)
    parts += _among_or_none("kind", query.kinds) + _among_or_none("engine", query.engines)
    parts += _among("person", query.persons if viewpoint.sees_all else ())
    if query.comparison is not None:
        parts.append(("comparison = ?", [query.comparison]))
    if not query.of_comparisons:
        parts.append(("comparison IS NULL", []))
    clause = " AND ".join(text for text, _ in parts)
    return f"WHERE {clause}", [_bindable(value) for _, values in parts for value in values]


def select_runs(condition: str, query: Query) -> str:
    """Return a SELECT statement for runs. It sorts unknown values last, and ties newest first."""
    key, direction = _SORTED[query.sort], "DESC" if query.descending else "ASC"
    limit = -1 if query.limit is None else min(query.limit, _LARGEST)
    offset = min(query.offset, _LARGEST)
    return (
        f"SELECT {', '.join(COLUMNS)}, {_TAGS} FROM runs {condition} "
        f"ORDER BY {key} {direction} NULLS LAST, run DESC LIMIT {limit} OFFSET {offset}"
    )


def select_run(condition: str) -> str:
    return f"SELECT {', '.join(COLUMNS)}, {_TAGS} FROM runs {condition}"


def row_of(found: Sequence[Any]) -> RunRow:
    """Return a database row as a RunRow; raises StoreError if a value has the wrong type."""
    given = dict(zip(COLUMNS, found, strict=False))
    job = None if given["lane"] is None else (given["lane"], given["item"], given["repeat"])
    nested = {"summary": given, "job": job, "tags": sorted(json.loads(found[-1]))}
    try:  # SQLite stores a value of any type in any column
        return msgspec.convert(given | nested, RunRow)
    except msgspec.ValidationError:
        raise StoreError(
            "A run of the library is damaged: a column has a value of the wrong type.",
            remedy="Move the library away, or restore it from a backup.",
        ) from None


def facet_values(db: sqlite3.Connection, viewpoint: Viewpoint = EVERYTHING) -> Facets:
    """Return the values that occur in the runs that the person sees."""
    condition, values = live(viewpoint)

    def distinct(column: str) -> tuple[Any, ...]:
        found = db.execute(
            f"SELECT DISTINCT {column} FROM runs WHERE {condition} ORDER BY {column} NULLS LAST",
            values,
        )
        return tuple(each[0] for each in found.fetchall())

    def known(column: str) -> tuple[Any, ...]:
        return tuple(each for each in distinct(column) if each is not None)

    tags = db.execute(
        f"SELECT DISTINCT tag FROM tags JOIN runs USING (run) WHERE {condition} ORDER BY tag",
        values,
    ).fetchall()
    return Facets(
        pairs=distinct("pair"),
        kinds=distinct("kind"),
        tags=tuple(each[0] for each in tags),
        rules=known("rule"),
        finishes=distinct("finish"),
        drafters=known("drafter"),
        bodies=known("bodies"),
        gammas=known("gamma"),
        temperatures=distinct("temperature"),
        engines=distinct("engine"),
        persons=_persons(db) if viewpoint.sees_all else (),
    )


def _persons(db: sqlite3.Connection) -> tuple[str, ...]:
    """Return the keys of all persons with runs; the owner's key, "", comes first.

    The result is empty if all runs are the owner's.

    A person whose runs are all deleted is included, too: for speed, each query reads only an index
    or stops at the first row, and does not check whether runs are deleted.
    """
    others = db.execute(
        "SELECT DISTINCT person FROM runs WHERE person <> '' ORDER BY person"
    ).fetchall()
    owners = db.execute("SELECT person FROM runs WHERE person = '' LIMIT 1").fetchall()
    return tuple(each[0] for each in [*owners, *others]) if others else ()


def storable(text: str) -> str:
    """Return the text as SQLite can store it, without lone surrogates and NULs."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _bindable(value: Any) -> Any:
    """Return a value that SQLite can bind; an integer too large for SQLite becomes infinity."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, int) and abs(value) > _LARGEST:
        return math.inf
    return value


def _deleted(query: Query) -> Condition:
    return f"deleted_at IS {'NOT ' if query.deleted else ''}NULL", []


def _visible(query: Query, viewpoint: Viewpoint) -> list[Condition]:
    """Return the condition for the runs that the person sees in a list.

    In a list of deleted runs, only the owner sees the runs of other persons.
    """
    if viewpoint.sees_all:
        return []
    return [own(viewpoint) if query.deleted else seen(viewpoint)]


def _searched(query: Query) -> list[Condition]:
    words = storable(query.search).casefold().split()
    return [("instr(words, ?) > 0", [word]) for word in words]


def _tagged(query: Query) -> list[Condition]:
    one_tag = "EXISTS (SELECT 1 FROM tags WHERE tags.run = runs.run AND tag = ?)"
    return [(one_tag, [tag]) for tag in query.tags]


def _among(column: str, values: Sequence[str | float]) -> list[Condition]:
    if not values:
        return []
    return [(f"{column} IN ({', '.join('?' * len(values))})", list(values))]


def _among_or_none(column: str, wanted: Sequence[str | None]) -> list[Condition]:
    if not wanted:
        return []
    (listed,) = _among(column, [each for each in wanted if each is not None]) or [("0", [])]
    text, values = listed
    return [(f"({text}{f' OR {column} IS NULL' if None in wanted else ''})", values)]
