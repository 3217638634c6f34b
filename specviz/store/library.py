"""The run library: all runs in one SQLite file, the columns of lists apart from the traces.

Lists read no trace. Once ``add`` has returned, a run survives a power cut; before that, nothing
of it is there. Safe from any thread and beside other processes: each call
has a connection of its own. What cannot be done is a ``StoreError`` with its remedy.
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
from specviz.record.server_run import AnyTrace, ServerTrace
from specviz.record.trace import Trace
from specviz.store.dataclass_json import short
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
from specviz.store.traces import run_from_json
from specviz.store.written_texts import text_by

MAX_NAME = 200
MAX_TAGS = 20
MAX_TAG = 40
MAX_NOTE = 4000
_DAY = 86_400.0
_GIVEN_LATER = ("comparison", "lane", "item", "repeat", "memory_bytes")
_COLUMNS = tuple(each.name for each in fields(RunSummary))


class Library:
    """``path`` is the file; by default it lies in the data folder."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path if path is not None else _home() / "runs.db"

    # Runs

    def add(
        self,
        trace: AnyTrace,
        summary: RunSummary,
        *,
        run_id: str | None = None,
        name: str = "",
        comparison: str | None = None,
        job: tuple[int, int, int] | None = None,
        memory_bytes: int | None = None,
    ) -> str:
        """Add a run; it is durable when this returns its id.

        ``comparison`` is the key of one that was begun, ``job`` its lane, item and repeat. A run
        that is there already under ``run_id`` stays and is completed with what is given: the same
        run may be added twice, in either order.
        """
        made = NewRun(
            trace=trace,
            summary=summary,
            run_id=run_id,
            name=name,
            comparison=comparison,
            job=job,
            memory_bytes=memory_bytes,
        )
        return self.add_together([made])[0]

    def add_together(self, runs: Sequence[NewRun]) -> tuple[str, ...]:
        """Add all of them or none; they are durable when this returns their ids."""
        rows = [(_values(run), packed(run.trace)) for run in runs]
        with self._writing() as db:
            for values, body in rows:
                _add(db, values, body)
        return tuple(values["id"] for values, _ in rows)

    def add_unless_there(self, run: NewRun) -> tuple[str, bool]:
        """Add a run whose trace the library does not have; its id, and whether it was there.

        A deleted run with this trace is restored. Of two processes that add the same trace at the
        same time, one finds the run of the other.
        """
        values, body = _values(run), packed(run.trace)
        with self._writing() as db:
            there = _copy_of(db, body)
            if there is not None:
                db.execute("UPDATE runs SET deleted_at = NULL WHERE id = ?", (there,))
                return there, True
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
        """Raises StoreError if there is no such run, or it was deleted."""
        with self._reading() as db:
            found = db.execute(
                select_run("WHERE id = ? AND deleted_at IS NULL"), (storable(run_id),)
            ).fetchone()
        if found is None:
            raise _no_run(run_id)
        return row_of(found)

    def facets(self) -> Facets:
        """What there is to filter by, among the runs that are not deleted."""
        with self._reading() as db:
            return facet_values(db)

    def open(self, run_id: str) -> Trace:
        """The whole run, also a deleted one; no other is read. Raises StoreError for the answer of
        another engine, which lacks what most of our pages and commands look at."""
        found = self.open_any(run_id)
        if isinstance(found, ServerTrace):
            raise StoreError(
                f"The kept run is an answer of another engine ({found.info.title}).",
                remedy="Choose a run that specviz decoded itself.",
            )
        return found

    def open_any(self, run_id: str) -> AnyTrace:
        """The whole run, whoever made it."""
        with self._reading() as db:
            found = db.execute(
                "SELECT body FROM traces JOIN runs USING (run) WHERE id = ?",
                (storable(run_id),),
            ).fetchone()
        if found is None:
            raise _no_run(run_id)
        return run_from_json(unpacked(found[0]), source="The kept run")

    def texts_by(self, target_sha256: str, limit: int) -> list[list[int]]:
        """The tokens of prompt and text of those of the newest own runs that have this target, the
        newest last. Traces are not checked; one that is damaged is left out."""
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
        """What a person writes to a run, all of it or none; None leaves what is there."""
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
        """Out of every list, but kept until it is purged, so that it can be restored."""
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
        """Remove for good what was deleted that long ago; how many runs that were."""
        with self._writing() as db:
            gone = db.execute(
                "DELETE FROM runs WHERE deleted_at <= ?", (time.time() - older_than_days * _DAY,)
            )
            return gone.rowcount

    def complete_older(self, seconds: float) -> int:
        """Work out what rows of an older schema lack, newest first; how many are left.

        At least one is read, then as many as the time allows. Each is read once: the value of a
        run whose trace is damaged stays unknown.
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
        """Add a comparison; one that is there already stays as it is."""
        with self._writing() as db:
            db.execute(
                "INSERT OR IGNORE INTO comparisons (key, title, plan_json, created) "
                "VALUES (?, ?, ?, ?)",
                (storable(key), storable(title), storable(plan_json), _now()),
            )

    def comparison_jobs(self, key: str) -> dict[tuple[int, int, int], str]:
        """The runs of a comparison by (lane, item, repeat); of two, the one kept last."""
        with self._reading() as db:
            found = db.execute(
                "SELECT lane, item, repeat, id FROM runs WHERE comparison = ? "
                "AND deleted_at IS NULL AND lane IS NOT NULL ORDER BY run",
                (storable(key),),
            ).fetchall()
        return {(lane, item, repeat): run_id for lane, item, repeat, run_id in found}

    def comparisons(self) -> tuple[ComparisonRow, ...]:
        """Newest first."""
        return self._comparisons("", ())

    def comparison(self, key: str) -> ComparisonRow:
        """Raises StoreError if there is no such comparison."""
        for found in self._comparisons("WHERE key = ?", (storable(key),)):
            return found
        raise StoreError(
            f"There is no comparison {short(key)} in the library.",
            remedy="Choose one that Compare has under Kept.",
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
            raise  # a bug of ours: an id twice, or a comparison that was not begun
        except (sqlite3.Error, OSError) as error:
            raise store_error(error, self.path) from error

    @contextlib.contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """One transaction: all of it or none."""
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
        f"There is no run {short(run_id)} in the library.",
        remedy="Choose one from the list of runs.",
    )


def _home() -> Path:
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
    """The run, also a deleted one, that has this very trace."""
    found = db.execute(
        "SELECT id FROM runs JOIN traces USING (run) WHERE trace_bytes = ? AND body = ?",
        (len(body), body),
    ).fetchone()
    return found[0] if found else None


def _insert(db: sqlite3.Connection, values: dict[str, Any]) -> int:
    given = {n: storable(each) if isinstance(each, str) else each for n, each in values.items()}
    holes = ", ".join(f":{name}" for name in given)
    later = ", ".join(f"{each} = coalesce(excluded.{each}, {each})" for each in _GIVEN_LATER)
    added = db.execute(
        f"INSERT INTO runs ({', '.join(given)}) VALUES ({holes}) ON CONFLICT (id) DO UPDATE "
        f"SET {later}, name = iif(excluded.name = '', name, excluded.name) RETURNING run",
        given,
    )
    return int(added.fetchone()[0])


def _index_words(db: sqlite3.Connection, runs: Sequence[int]) -> None:
    """Write the text that a search looks in, case folded: SQLite folds ASCII alone."""
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
            "There are too many tags, or too long ones.",
            remedy=f"Use at most {MAX_TAGS} of at most {MAX_TAG} characters.",
        )
    return wanted


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
