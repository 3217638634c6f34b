"""Stored sweeps: in the data folder, and as JSON files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specviz.record.load_run import LoadSweep
from specviz.store.dataclass_json import MisfitError, fit_to_type
from specviz.store.files import damaged, parsed, read_file, refuse, to_json
from specviz.store.kept_values import kept_values, load_value, save_value

KIND = "load-sweeps"
SCHEMA = 1


def save_sweep(sweep: LoadSweep) -> bool:
    """Store the sweep under its id; return False if the data folder cannot be written."""
    return save_value(KIND, sweep.id, sweep)


def load_sweep(sweep_id: str) -> LoadSweep | None:
    return load_value(KIND, sweep_id, LoadSweep)


def stored_sweeps() -> tuple[LoadSweep, ...]:
    """Return the stored sweeps, the newest first."""
    found = kept_values(KIND, LoadSweep).values()
    return tuple(sorted(found, key=lambda each: each.created, reverse=True))


def sweep_to_json(sweep: LoadSweep) -> str:
    return to_json({"schema": SCHEMA, "kind": KIND, "sweep": sweep})


def is_sweep(record: object) -> bool:
    """Return whether parsed JSON is a stored sweep of any version."""
    return isinstance(record, dict) and record.get("kind") == KIND  # pyright: ignore


def sweep_from_json(text: str, source: str) -> LoadSweep:
    """Return the sweep in a file's text; raises TraceError, which names ``source``."""
    record: Any = parsed(text, source)
    if not is_sweep(record):
        refuse(f"{source} is not a load sweep.", "Choose a file that load --out wrote.")
    if record.get("schema") != SCHEMA:
        refuse(
            f"{source} has version {str(record.get('schema'))[:20]} of the sweep format.",
            "Open the file with a newer specviz.",
        )
    try:
        return fit_to_type(record.get("sweep"), LoadSweep)
    except MisfitError as error:
        raise damaged(source, str(error)) from None
    except RecursionError:
        raise damaged(source, "it is nested too deeply") from None


def read_sweep(path: Path) -> LoadSweep:
    return sweep_from_json(read_file(path), str(path))
