"""Small values that persist between program starts, each in a JSON file in the data folder.

A value is stored under its kind, such as "load-times", and under a key: for example, the settings
to which the value applies. A value that cannot be read counts as missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from specviz.errors import SpecvizError, StoreError
from specviz.folders import data_folder
from specviz.store.dataclass_json import fit_to_type, from_json
from specviz.store.files import read_file, to_json, write_file

SCHEMA = 1

T = TypeVar("T")


def save_value(kind: str, key: str, value: Any) -> bool:
    """Store a dataclass value; return False if the folder cannot be written."""
    text = to_json({"schema": SCHEMA, "kind": kind, "key": key, "value": value})
    try:
        path = _value_path(kind, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text)
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        return False
    return True


def load_value(kind: str, key: str, value_type: type[T]) -> T | None:
    """Return the value last stored under this kind and key; None if missing or unreadable."""
    try:
        path = _value_path(kind, key)
        record = fit_to_type(json.loads(read_file(path)), dict[str, Any])
        if [record.get(name) for name in ("schema", "kind", "key")] != [SCHEMA, kind, key]:
            return None
        return from_json(json.dumps(record.get("value")), value_type)
    except (OSError, ValueError, RuntimeError, SpecvizError):
        return None  # RuntimeError: nested too deeply, or no home folder


def kept_values(kind: str, value_type: type[T]) -> dict[str, T]:
    """Return all readable values that are stored under this kind, by their keys."""
    found: dict[str, T] = {}
    try:
        for path in sorted((data_folder() / kind).glob("*.json")):
            key = _key_in(path)
            value = None if key is None else load_value(kind, key, value_type)
            if key is not None and value is not None:
                found[key] = value
    except (OSError, RuntimeError):
        pass
    return found


def forget_values(kind: str) -> None:
    """Delete all values of a kind, after any ``change_value`` in progress has finished.

    Raises:
        StoreError: A file cannot be deleted.
    """
    try:
        files = {path.with_suffix(".json") for path in (data_folder() / kind).glob("*.*")}
        for path in files:
            with FileLock(path.with_suffix(".lock")):
                path.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:
        raise StoreError(
            f"The stored values cannot be deleted: {error}.", remedy="Check the data folder."
        ) from None


def _key_in(path: Path) -> str | None:
    try:
        key = json.loads(read_file(path)).get("key")
    except (OSError, ValueError, AttributeError, RuntimeError, SpecvizError):
        return None
    return key if isinstance(key, str) else None


def change_value(kind: str, key: str, value_type: type[T], change: Callable[[T | None], T]) -> bool:
    """Replace the value by ``change(value)``; return False if it cannot be stored.

    A lock makes other threads and processes wait, so no change is lost.
    """
    try:
        path = _value_path(kind, key).with_suffix(".lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path):  # released by the system even if this process crashes
            return save_value(kind, key, change(load_value(kind, key, value_type)))
    except (OSError, RuntimeError):
        return False


def _value_path(kind: str, key: str) -> Path:
    assert kind.replace("-", "").replace("_", "").isalnum(), kind
    name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return data_folder() / kind / f"{name}.json"
