"""Runs as tables for other programs: one row per run, or one row per round of many runs."""
# pyright: standard, reportUnknownMemberType=false

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict

import pandas as pd

from specviz.figures.frames import answer_frame, rounds_frame
from specviz.record.server_run import AnyTrace, dispatch
from specviz.store import RunRow


def runs_frame(rows: Sequence[RunRow], *, with_persons: bool = False) -> pd.DataFrame:
    """Return one row per run, in the given order: summary columns, name, tags and note.

    Args:
        with_persons: Add a column with the key of each run's person; "" is the owner.
    """
    table = pd.DataFrame.from_records([_run(row) for row in rows])
    return table.assign(person=[row.person for row in rows]) if with_persons else table


def rounds_of_runs(runs: Iterable[tuple[str, AnyTrace]]) -> pd.DataFrame:
    """Return one row per round, with the run's id; read the traces from ``runs`` one by one."""
    frames = [_rounds(trace).assign(run=run_id) for run_id, trace in runs]
    if not frames:
        return pd.DataFrame({"run": []})
    table = pd.concat(frames, ignore_index=True)
    table.insert(0, "run", table.pop("run"))
    return table


def rounds_csv(trace: AnyTrace) -> str:
    return _rounds(trace).to_csv(index=False)


def _rounds(trace: AnyTrace) -> pd.DataFrame:
    return dispatch(trace, rounds_frame, answer_frame)


def parquet(table: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()


def _run(row: RunRow) -> dict[str, object]:
    lane, item, repeat = row.job or (None, None, None)
    return {
        "id": row.id,
        "name": row.name,
        "tags": ", ".join(row.tags),
        "note": row.note,
        **asdict(row.summary),
        "comparison": row.comparison,
        "lane": lane,
        "item": item,
        "repeat": repeat,
        "memory_bytes": row.memory_bytes,
    }
