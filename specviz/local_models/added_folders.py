"""Store the model folders that the user added, in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from specviz.errors import ConfigError
from specviz.folders import data_folder

_FILE = "model_folders.json"
_MAX_FOLDERS = 100


def added_folders() -> tuple[Path, ...]:
    """Return the stored folders; empty if the list cannot be read."""
    try:
        known = json.loads((data_folder() / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    names = [each for each in known if isinstance(each, str)] if isinstance(known, list) else []
    return tuple(map(Path, names[:_MAX_FOLDERS]))


def add_folders(folders: Iterable[str | Path]) -> tuple[Path, ...]:
    """Store folders; return all stored folders.

    Raises:
        ConfigError: A path is not a folder.
    """
    wanted = [Path(os.path.expanduser(each)).absolute() for each in folders]
    for each in wanted:
        if not each.is_dir():
            raise ConfigError(f"{each} is not a folder.", remedy="Give a folder with models.")
    return _remember(dict.fromkeys([*added_folders(), *wanted]))


def forget_folder(folder: Path) -> tuple[Path, ...]:
    """Remove a folder from the stored folders; return the remaining ones."""
    return _remember(each for each in added_folders() if each != folder)


def _remember(folders: Iterable[Path]) -> tuple[Path, ...]:
    kept = tuple(folders)[:_MAX_FOLDERS]
    path = data_folder() / _FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps([str(each) for each in kept]), encoding="utf-8")
    part.replace(path)
    return kept
