"""The run library: all runs in one SQLite file.

The columns that lists show are stored apart from the traces, so a list reads no trace. ``add`` is
atomic and durable: once it returns, the run survives a power cut. The library is safe across
threads and processes, because each call opens its own connection. Failures raise a ``StoreError``
with a remedy. A run that the library's ``viewpoint`` does not see is treated as missing.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

from specviz.errors import StoreError
from specviz.record.server_run import AnyTrace
from specviz.record.trace import Trace
from specviz.store import comparisons
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
from specviz.store.rows import ComparisonRow, Facets, NewRun, Query, RunRow
from specviz.store.run_rows import (
    add_row,
    checked_name,
    checked_note,
    checked_tags,
    copy_of,
    index_words,
    number_to_change,
    set_shared,
    set_tags,
    values_of,
)
from specviz.store.schema import connect, store_error
from specviz.store.traces import as_trace, run_from_json
from specviz.store.viewpoint import (
    EVERYTHING,
    Viewpoint,
    live,
    only_owner_shares,
    openable,
    own,
    readable,
)
from specviz.store.written_texts import text_by

_DAY = 86_400.0


class Library:
    """The database of all stored runs; ``path`` is its file, by default in the data folder.

    Each call sees and changes only the runs that ``viewpoint`` allows, by default all runs.
    """

    def __init__(self, path: Path | None = None, viewpoint: Viewpoint = EVERYTHING) -> None:
        self.path = path if path is not None else _default_folder() / "runs.db"
        self._viewpoint = viewpoint

    @property
    def viewpoint(self) -> Viewpoint:
        return self._viewpoint

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
        viewpoint = self.viewpoint
        viewpoint.check_new(runs)
        rows = [(values_of(run, viewpoint), packed(run.trace)) for run in runs]
        with self._writing() as db:
            for values, body in rows:
                add_row(db, viewpoint, values, body)
        return tuple(values["id"] for values, _ in rows)

    def add_unless_there(self, run: NewRun) -> tuple[str, bool]:
        """Add a run unless its trace is stored already.

        Return the id, and whether the trace was stored already. A deleted run with this trace is
        restored. If two processes add the same trace at once, only one of them stores it.
        """
        viewpoint = self.viewpoint
        viewpoint.check_new([run])
        values, body = values_of(run, viewpoint), packed(run.trace)
        with self._writing() as db:
            existing = copy_of(db, viewpoint, body)
            if existing is not None:
                _restore(db, viewpoint, existing)
                return existing, True
            add_row(db, viewpoint, values, body)
        return values["id"], False

    def find(self, query: Query | None = None) -> tuple[RunRow, ...]:
        query, viewpoint = query or Query(), self.viewpoint
        condition, values = where_clause(query, viewpoint)
        with self._reading() as db:
            found = db.execute(select_runs(condition, query), values).fetchall()
        return tuple(viewpoint.shown(row_of(each)) for each in found)

    def count(self, query: Query | None = None) -> int:
        condition, values = where_clause(query or Query(), self.viewpoint)
        with self._reading() as db:
            return int(db.execute(f"SELECT count(*) FROM runs {condition}", values).fetchone()[0])

    def row(self, run_id: str) -> RunRow:
        """Return a run without its trace; raises StoreError if the run is missing or deleted."""
        viewpoint = self.viewpoint
        condition, values = readable(viewpoint)
        with self._reading() as db:
            found = db.execute(
                select_run(f"WHERE id = ? AND {condition}"), (storable(run_id), *values)
            ).fetchone()
        if found is None:
            raise _no_run(run_id)
        return viewpoint.shown(row_of(found))

    def facets(self) -> Facets:
        """Return the values by which runs can be filtered; deleted runs are left out."""
        with self._reading() as db:
            return facet_values(db, self.viewpoint)

    def open(self, run_id: str) -> Trace:
        """Return the trace of a run, even if the run is deleted.

        Raises StoreError if the run is missing or damaged, or if another engine made it.
        """
        return as_trace(self.open_any(run_id), "The stored run", StoreError)

    def open_any(self, run_id: str) -> AnyTrace:
        """Return a run's trace or another engine's answer, even if the run is deleted."""
        condition, values = openable(self.viewpoint)
        with self._reading() as db:
            found = db.execute(
                f"SELECT body FROM traces JOIN runs USING (run) WHERE id = ? AND {condition}",
                (storable(run_id), *values),
            ).fetchone()
        if found is None:
            raise _no_run(run_id)
        return run_from_json(unpacked(found[0]), source="The stored run")

    def texts_by(self, target_sha256: str, limit: int) -> list[list[int]]:
        """Return the prompt and output tokens of recent runs with this target, newest last.

        Only the ``limit`` newest runs of specviz are searched. Traces are not validated;
        damaged ones are skipped.
        """
        condition, values = live(self.viewpoint)
        with self._reading() as db:
            found = db.execute(
                "SELECT body FROM traces JOIN runs USING (run) WHERE engine IS NULL "
                f"AND {condition} ORDER BY created DESC, run DESC LIMIT ?",
                (*values, limit),
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
        texts = {"name": name and checked_name(name), "note": note and checked_note(note)}
        wanted = None if tags is None else checked_tags(tags)
        viewpoint = self.viewpoint
        with self._writing() as db:
            run = number_to_change(db, viewpoint, run_id)
            if run is None:
                raise _no_run(run_id)
            for column, text in texts.items():
                if text is not None:
                    db.execute(f"UPDATE runs SET {column} = ? WHERE run = ?", (text, run))
            if wanted is not None:
                set_tags(db, viewpoint, run, wanted)
            index_words(db, [run])

    def share(self, run_ids: Sequence[str], *, shared: bool) -> None:
        """Add or remove the tag that shows a run to everybody; only the owner may do this."""
        viewpoint = self.viewpoint
        if not viewpoint.sees_all:
            raise only_owner_shares()
        with self._writing() as db:
            for run_id in run_ids:
                if (run := number_to_change(db, viewpoint, run_id)) is not None:
                    set_shared(db, run, shared=shared)

    def delete(self, run_ids: Sequence[str]) -> None:
        """Hide runs from all lists; they can be restored until they are purged."""
        viewpoint = self.viewpoint
        with self._writing() as db:
            runs = [number_to_change(db, viewpoint, each) for each in run_ids]
            db.executemany(
                "UPDATE runs SET deleted_at = ? WHERE run = ? AND deleted_at IS NULL",
                [(time.time(), run) for run in runs],
            )

    def restore(self, run_ids: Sequence[str]) -> None:
        viewpoint = self.viewpoint
        with self._writing() as db:
            for run_id in run_ids:
                _restore(db, viewpoint, run_id)

    def purge(self, older_than_days: float) -> int:
        """Permanently remove runs deleted at least this long ago; return the number removed."""
        condition, values = own(self.viewpoint)
        before = time.time() - older_than_days * _DAY
        with self._writing() as db:
            gone = db.execute(
                f"DELETE FROM runs WHERE deleted_at <= ? AND {condition}", (before, *values)
            )
            return gone.rowcount

    def complete_older(self, seconds: float) -> int:
        """Fill in columns that an older schema lacked, newest rows first.

        Read at least one trace, then more until ``seconds`` have passed; return the number of rows
        that are still incomplete. If a row's trace is damaged, the row's values stay unknown, and
        the trace is not read again.
        """
        deadline, condition = time.monotonic() + seconds, openable(self.viewpoint)
        with self._reading() as db:
            found = older_alphas(db, condition, deadline)
        if not found:
            return 0
        with self._writing() as db:
            set_older_alphas(db, found)
            return count_older(db, condition)

    # Comparisons

    def begin_comparison(self, key: str, plan_json: str, title: str) -> None:
        """Add a comparison, unless a comparison with this key exists already."""
        with self._writing() as db:
            comparisons.begin(db, self.viewpoint, key, plan_json, title)

    def comparison_jobs(self, key: str) -> dict[tuple[int, int, int], str]:
        """Return the ids of a comparison's runs by (lane, item, repeat).

        These are the indices of the compared setting (lane), the prompt (item) and the repeat. If
        several runs have the same lane, item and repeat, the run stored last is returned.
        """
        with self._reading() as db:
            return comparisons.jobs(db, self.viewpoint, key)

    def comparisons(self) -> tuple[ComparisonRow, ...]:
        """Return all comparisons, newest first."""
        with self._reading() as db:
            return comparisons.rows(db, self.viewpoint)

    def comparison(self, key: str) -> ComparisonRow:
        """Return one comparison; raises StoreError if it does not exist."""
        with self._reading() as db:
            found = comparisons.rows(db, self.viewpoint, comparisons.with_key(key))
        if not found:
            raise comparisons.no_comparison(key)
        return found[0]

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


def _restore(db: sqlite3.Connection, viewpoint: Viewpoint, run_id: str) -> None:
    condition, values = own(viewpoint)
    db.execute(
        f"UPDATE runs SET deleted_at = NULL WHERE id = ? AND {condition}",
        (storable(run_id), *values),
    )


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
