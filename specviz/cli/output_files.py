"""Write a command's output files; before the command starts, check that they can be written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from specviz.cli.terminal_text import one_line
from specviz.errors import ConfigError


def save_text(path: Path, text: str, option: str, remedy: str) -> None:
    """Write the whole file or nothing; raise ConfigError, naming ``option``, if this fails."""
    from specviz.store.files import write_file

    try:
        write_file(path, text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{option}: {path} cannot be written: {reason}.", remedy=remedy) from None
    print(f"saved {one_line(str(path))}", file=sys.stderr)


def check_output(path: Path, option: str = "--out") -> None:
    """Raise ConfigError unless a file can be written at ``path``."""
    try:
        _check_path(path, Path(os.path.realpath(path)), option)
    except (OSError, ValueError) as error:  # a name that is too long, or a null character
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"{option}: {path} cannot be written: {reason}.", remedy="Give another name."
        ) from None


def _check_path(path: Path, real: Path, option: str) -> None:
    """Check both ``path`` and ``real``, the file that is written if ``path`` is a link."""
    for folder in (path.parent, real.parent):
        if not folder.is_dir():
            raise ConfigError(f"{option}: there is no folder {folder}.", remedy="Create it first.")
    exists = os.path.lexists(real)
    if real.is_dir():
        raise ConfigError(f"{option}: {path} is a folder.", remedy="Give the name of a file.")
    if exists and not real.is_file():
        raise ConfigError(f"{option}: {path} is not a file.", remedy="Give the name of a file.")
    # The file is replaced, not overwritten, so the folder must be writable.
    if not (os.access(real.parent, os.W_OK) and (not exists or os.access(real, os.W_OK))):
        raise ConfigError(
            f"{option}: {path} cannot be written.", remedy="Choose a folder that you may write to."
        )
