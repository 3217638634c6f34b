"""The folder of the cached machine code. A marker file in it shows that the code is complete.

This module imports no compiler.
"""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from specviz.folders import data_folder


@cache
def kernels_folder() -> str:
    """Return the cache folder, named by a digest of all kernel sources; "" if it cannot be created.

    A change in one kernel module invalidates the code of all modules.
    """
    try:
        folder = _own_folder()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return ""
    return str(folder)


def _own_folder() -> Path:
    return data_folder() / "kernels" / sources_digest()


@cache
def sources_digest() -> str:
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def is_missing() -> bool:
    """Return whether the machine code is not cached yet and the cache folder is writable."""
    with suppress(OSError, ImportError):
        if folder := _folder():
            Path(folder).mkdir(parents=True, exist_ok=True)
            return os.access(folder, os.W_OK) and not _mark(folder).is_file()
    return False


def is_complete() -> bool:
    """Return whether all machine code is cached. Unlike ``is_missing``, create no folder."""
    with suppress(OSError, RuntimeError, ImportError):
        return _mark(os.environ.get("NUMBA_CACHE_DIR") or str(_own_folder())).is_file()
    return False


def mark_complete() -> None:
    with suppress(OSError, ImportError):
        if folder := _folder():
            _mark(folder).touch()


def _mark(folder: str) -> Path:
    """Return the file that marks the cached machine code as complete.

    The name of the file changes whenever numba would compile again.
    """
    facts = [version("numba"), sys.implementation.cache_tag]
    for path in _sources():
        state = path.stat()
        facts += [str(path), str(state.st_mtime), str(state.st_size)]
    return Path(folder, hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16])


def _folder() -> str:
    return os.environ.get("NUMBA_CACHE_DIR") or kernels_folder()


def _sources() -> list[Path]:
    return sorted(Path(__file__).parent.glob("*.py"))
