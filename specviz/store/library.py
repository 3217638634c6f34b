"""The run library: all runs in one SQLite file.

The columns that lists show are stored apart from the traces, so a list reads no trace. ``add`` is
atomic and durable: once it returns, the run survives a power cut. The library is safe across
threads and processes, because each call opens its own connection. Failures raise a ``StoreError``
with a remedy.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
import uuid
from collections.abc import Generator, Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specviz.errors import StoreError
from specviz.record.server_run import AnyTrace
from specviz.record.trace import Trace
from specviz.store.kept_values import data_folder
from specviz.store.older_rows import count_older, older_alphas, set_older_alphas
from specviz.store.packing import packed, unpacked
from specviz.store.queries import (
    facet_values,
    row_of,
    select_run,
    select_runs,
    storable,
    where_clause,
)
from specviz.store.rows import ComparisonRow, Facets, NewRun, Query, RunRow, RunSummary
from specviz.store.schema import connect, store_error
from specviz.store.traces import as_trace, run_from_json
from specviz.store.written_texts import text_by

MAX_NAME = 200
MAX_TAGS = 20
MAX_TAG = 40
MAX_NOTE = 4000
_DAY = 86_400.0
_GIVEN_LATER = ("comparison", "lane", "item", "repeat", "memory_bytes")
_COLUMNS = tuple(each.name for each in fields(RunSummary))


class Library:
    """The database of all stored runs; ``path`` is its file, by default in the data folder."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path if path is not None else _default_folder() / "runs.db"

    # Runs

    def add(self, run: NewRun) -> str:
        """Add a run and return its id; the run is then durable.

        If the id exists already, the stored trace stays. A name, comparison, job or memory in
        ``run`` (see ``NewRun``) replaces the stored value. So a run can be added alone and as part
        of a comparison, in either order.
        """
        return self.add_together([run])[0]

    def add_together(self, runs: Sequence[NewRun]) -> tuple[str, ...]:
        """Add all runs or none and return their ids; the runs are then durable."""
        rows = [(_values(run), packed(run.trace)) for run in runs]
        with self._writing() as db:
            for values, body in rows:
                _add(db, values, body)
        return tuple(values["id"] for values, _ in rows)

    def add_unless_there(self, run: NewRun) -> tuple[str, bool]:
        """Add a run unless its trace is stored already.

        Return the id, and whether the trace was stored already. A deleted run with this trace is
        restored. If two processes add the same trace at once, only one of them stores it.
        """
        values, body = _values(run), packed(run.trace)
        with self._writing() as db:
            existing = _copy_of(db, body)
            if existing is not None:
                db.execute("UPDATE runs SET deleted_at = NULL WHERE id = ?", (existing,))
                return existing, True
            _add(db, values, body)
        return values["id"], False

    def find(self, query: Query | None = None) -> tuple[RunRow, ...]:
        query = query or Query()
        condition, values = where_clause(query)
        with self._reading() as db:
            found = db.execute(select_runs(condition, query), values).fetchall()
        return tuple(row_of(each) for each in found)

    def count(self, query: Query | None = None) -> int:
        condition, values = where_clause(query or Query())
        with self._reading() as db:
            return int(db.execute(f"SELECT count(*) FROM runs {condition}", values).fetchone()[0])

    def row(self, run_id: str) -> RunRow:
        """Return a run without its trace; raises StoreError if the run is missing or deleted."""
        with self._reading() as db:
            found = db.execute(
                select_run("WHERE id = ? AND deleted_at IS NULL"), (storable(run_id),)
            ).fetchone()
        if found is None:
            raise _no_run(run_id)
        return row_of(found)

    def facets(self) -> Facets:
        """Return the values by which runs can be filtered, without those of deleted runs."""
        with self._reading() as db:
            return facet_values(db)

    def open(self, run_id: str) -> Trace:
        """Return the trace of a run, even if the run is deleted.

        Raises StoreError if the run is missing or damaged, or if another engine made it.
        """
        return as_trace(self.open_any(run_id), "The stored run", StoreError)

    def open_any(self, run_id: str) -> AnyTrace:
        """Return a run's trace or another engine's answer, even if the run is deleted."""
        with self._reading() as db:
            found = db.execute(
                "SELECT body FROM traces JOIN runs USING (run) WHERE id = ?",
                (storable(run_id),),
            ).fetchone()
        if found is None:
            raise _no_run(run_id)
        return run_from_json(unpacked(found[0]), source="The stored run")

    def texts_by(self, target_sha256: str, limit: int) -> list[list[int]]:
        """Return the prompt and output tokens of recent runs with this target, newest last.

        Only the ``limit`` newest runs of specviz are searched. Traces are not validated;
        damaged ones are skipped.
        """
        with self._reading() as db:
            found = db.execute(
                "SELECT body FROM traces JOIN runs USING (run) WHERE engine IS NULL "
                "AND deleted_at IS NULL ORDER BY created DESC, run DESC LIMIT ?",
                (limit,),
            ).fetchall()
        texts = (text_by(target_sha256, body) for (body,) in reversed(found))
        return [text for text in texts if text]

    def annotate(
        self,
        run_id: str,
        *,
        name: str | None = None,
        tags: Iterable[str] | None = None,
        note: str | None = None,
    ) -> None:
        """Set the given fields of a run, all or none; None leaves a field unchanged."""
        texts = {"name": name and _name(name), "note": note and _note(note)}
        wanted = None if tags is None else _tags(tags)
        with self._writing() as db:
            run = self._number(db, run_id)
            for column, text in texts.items():
                if text is not None:
                    db.execute(f"UPDATE runs SET {column} = ? WHERE run = ?", (text, run))
            if wanted is not None:
                db.execute("DELETE FROM tags WHERE run = ?", (run,))
                rows = [(run, tag) for tag in wanted]
                db.executemany("INSERT INTO tags (run, tag) VALUES (?, ?)", rows)
            _index_words(db, [run])

    def delete(self, run_ids: Sequence[str]) -> None:
        """Hide runs from all lists; they can be restored until they are purged."""
        with self._writing() as db:
            db.executemany(
                "UPDATE runs SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL",
                [(time.time(), storable(each)) for each in run_ids],
            )

    def restore(self, run_ids: Sequence[str]) -> None:
        with self._writing() as db:
            db.executemany(
                "UPDATE runs SET deleted_at = NULL WHERE id = ?",
                [(storable(each),) for each in run_ids],
            )

    def purge(self, older_than_days: float) -> int:
        """Permanently remove runs deleted at least this long ago; return the number removed."""
        with self._writing() as db:
            gone = db.execute(
                "DELETE FROM runs WHERE deleted_at <= ?", (time.time() - older_than_days * _DAY,)
            )
            return gone.rowcount

    def complete_older(self, seconds: float) -> int:
        """Fill in columns that an older schema lacked, newest rows first.

        Read at least one trace, then more until ``seconds`` have passed; return the number of rows
        that are still incomplete. If a row's trace is damaged, the row's values stay unknown, and
        the trace is not read again.
        """
        deadline = time.monotonic() + seconds
        with self._reading() as db:
            found = older_alphas(db, deadline)
        if not found:
            return 0
        with self._writing() as db:
            set_older_alphas(db, found)
            return count_older(db)

    # Comparisons

    def begin_comparison(self, key: str, plan_json: str, title: str) -> None:
        """Add a comparison; if one with this key exists, leave it unchanged."""
        with self._writing() as db:
            db.execute(
                "INSERT OR IGNORE INTO comparisons (key, title, plan_json, created) "
                "VALUES (?, ?, ?, ?)",
                (storable(key), storable(title), storable(plan_json), _now()),
            )

    def comparison_jobs(self, key: str) -> dict[tuple[int, int, int], str]:
        """Return the ids of a comparison's runs by (lane, item, repeat).

        These are the indices of the compared setting (lane), the prompt (item) and the repeat. If
        several runs have the same lane, item and repeat, the run stored last is returned.
        """
        with self._reading() as db:
            found = db.execute(
                "SELECT lane, item, repeat, id FROM runs WHERE comparison = ? "
                "AND deleted_at IS NULL AND lane IS NOT NULL ORDER BY run",
                (storable(key),),
            ).fetchall()
        return {(lane, item, repeat): run_id for lane, item, repeat, run_id in found}

    def comparisons(self) -> tuple[ComparisonRow, ...]:
        """Return all comparisons, newest first."""
        return self._comparisons("", ())

    def comparison(self, key: str) -> ComparisonRow:
        """Return one comparison; raises StoreError if it does not exist."""
        for found in self._comparisons("WHERE key = ?", (storable(key),)):
            return found
        raise StoreError(
            f"There is no comparison {key!r:.40} in the library.",
            remedy="Choose one under Kept, on the Compare page.",
        )

    def _comparisons(self, condition: str, values: tuple[str, ...]) -> tuple[ComparisonRow, ...]:
        counted = (
            "(SELECT count(*) FROM runs WHERE comparison = comparisons.key AND deleted_at IS NULL)"
        )
        with self._reading() as db:
            found = db.execute(
                f"SELECT key, title, plan_json, created, {counted} FROM comparisons {condition} "
                "ORDER BY created DESC, rowid DESC",
                values,
            ).fetchall()
        return tuple(
            ComparisonRow(key=key, title=title, plan_json=plan, created=created, num_runs=count)
            for key, title, plan, created, count in found
        )

    # The file

    @contextlib.contextmanager
    def _reading(self) -> Generator[sqlite3.Connection]:
        try:
            with contextlib.closing(connect(self.path)) as db:
                yield db
        except sqlite3.IntegrityError:
            raise  # our bug: a duplicate id, or a comparison that was not begun
        except (sqlite3.Error, OSError) as error:
            raise store_error(error, self.path) from error

    @contextlib.contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """Open a connection in one transaction, rolled back on any error."""
        with self._reading() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    db.rollback()
                raise

    def _number(self, db: sqlite3.Connection, run_id: str) -> int:
        found = db.execute("SELECT run FROM runs WHERE id = ?", (storable(run_id),)).fetchone()
        if found is None:
            raise _no_run(run_id)
        return int(found[0])


def _no_run(run_id: str) -> StoreError:
    return StoreError(
        f"There is no run {run_id!r:.40} in the library.",
        remedy="Choose one from the list of runs.",
    )


def _default_folder() -> Path:
    try:
        return data_folder()
    except RuntimeError:
        raise StoreError(
            "There is no home folder for the run library.", remedy="Set SPECVIZ_HOME to a folder."
        ) from None


def _values(run: NewRun) -> dict[str, Any]:
    lane, item, repeat = run.job or (None, None, None)
    return {each: getattr(run.summary, each) for each in _COLUMNS} | {
        "id": run.run_id or uuid.uuid4().hex,
        "name": _name(run.name),
        "words": "",
        "comparison": run.comparison,
        "lane": lane,
        "item": item,
        "repeat": repeat,
        "memory_bytes": run.memory_bytes,
    }


def _add(db: sqlite3.Connection, values: dict[str, Any], body: bytes) -> None:
    number = _insert(db, values | {"trace_bytes": len(body)})
    db.execute("INSERT OR IGNORE INTO traces (run, body) VALUES (?, ?)", (number, body))
    _index_words(db, [number])


def _copy_of(db: sqlite3.Connection, body: bytes) -> str | None:
    """Return the id of the stored run with exactly this trace, deleted or not, or None."""
    found = db.execute(
        "SELECT id FROM runs JOIN traces USING (run) WHERE trace_bytes = ? AND body = ?",
        (len(body), body),
    ).fetchone()
    return found[0] if found else None


def _insert(db: sqlite3.Connection, values: dict[str, Any]) -> int:
    given = {n: storable(each) if isinstance(each, str) else each for n, each in values.items()}
    placeholders = ", ".join(f":{name}" for name in given)
    later = ", ".join(f"{each} = coalesce(excluded.{each}, {each})" for each in _GIVEN_LATER)
    added = db.execute(
        f"INSERT INTO runs ({', '.join(given)}) VALUES ({placeholders}) ON CONFLICT (id) DO UPDATE "
        f"SET {later}, name = iif(excluded.name = '', name, excluded.name) RETURNING run",
        given,
    )
    return int(added.fetchone()[0])


def _index_words(db: sqlite3.Connection, runs: Sequence[int]) -> None:
    """Update the text in which searches find a run, case-folded: SQLite would fold only ASCII."""
    for run in runs:
        texts = db.execute(
            "SELECT name, note, prompt_head, text_head FROM runs WHERE run = ?", (run,)
        ).fetchone()
        tags = db.execute("SELECT tag FROM tags WHERE run = ?", (run,)).fetchall()
        words = "\n".join([*texts, *(tag for (tag,) in tags)]).casefold()
        db.execute("UPDATE runs SET words = ? WHERE run = ?", (words, run))


def _name(name: str) -> str:
    name = " ".join(name.split())
    if len(name) > MAX_NAME:
        raise StoreError(f"The name has {len(name)} characters.", remedy=f"Use at most {MAX_NAME}.")
    return storable(name)


def _note(note: str) -> str:
    if len(note) > MAX_NOTE:
        raise StoreError(f"The note has {len(note)} characters.", remedy=f"Use at most {MAX_NOTE}.")
    return storable(note)


def _tags(tags: Iterable[str]) -> list[str]:
    wanted = sorted({storable(" ".join(tag.split())) for tag in tags} - {""})
    if len(wanted) > MAX_TAGS or any(len(tag) > MAX_TAG for tag in wanted):
        raise StoreError(
            "There are too many tags, or a tag is too long.",
            remedy=f"Use at most {MAX_TAGS} tags of at most {MAX_TAG} characters.",
        )
    return wanted


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
