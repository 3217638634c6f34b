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

_SUMMARY = tuple(each.name for each in fields(RunSummary))
_TAGS = "(SELECT json_group_array(tag) FROM tags WHERE tags.run = runs.run)"
COLUMNS = (*_SUMMARY, "id", "name", "note", "comparison", "lane", "item", "repeat",
           "memory_bytes", "trace_bytes")  # fmt: skip
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

Condition = tuple[str, list[Any]]


def where_clause(query: Query) -> Condition:
    """Return a WHERE clause and the values to bind."""
    parts = [_deleted(query), *_searched(query), *_tagged(query)]
    parts += _among("pair", query.pairs) + _among("rule", query.rules)
    parts += _among("finish", query.finishes) + _among("drafter", query.drafters)
    parts += _among("bodies", query.bodies)
    parts += _among("gamma", query.gammas) + _among("temperature", query.temperatures)
    parts += _among_or_none("kind", query.kinds) + _among_or_none("engine", query.engines)
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


def facet_values(db: sqlite3.Connection) -> Facets:
    tags = db.execute(
        "SELECT DISTINCT tag FROM tags JOIN runs USING (run) WHERE deleted_at IS NULL ORDER BY tag"
    ).fetchall()
    return Facets(
        pairs=_distinct(db, "pair"),
        kinds=_distinct(db, "kind"),
        tags=tuple(each[0] for each in tags),
        rules=_known(db, "rule"),
        finishes=_distinct(db, "finish"),
        drafters=_known(db, "drafter"),
        bodies=_known(db, "bodies"),
        gammas=_known(db, "gamma"),
        temperatures=_distinct(db, "temperature"),
        engines=_distinct(db, "engine"),
    )


def _known(db: sqlite3.Connection, column: str) -> tuple[Any, ...]:
    return tuple(each for each in _distinct(db, column) if each is not None)


def _distinct(db: sqlite3.Connection, column: str) -> tuple[Any, ...]:
    found = db.execute(
        f"SELECT DISTINCT {column} FROM runs WHERE deleted_at IS NULL ORDER BY {column} NULLS LAST"
    )
    return tuple(each[0] for each in found.fetchall())


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
