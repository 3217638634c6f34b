"""Text files that a command writes."""

from __future__ import annotations

import sys
from pathlib import Path

from specviz.cli.terminal_text import one_line
from specviz.errors import ConfigError


def save_text(path: Path, text: str, option: str, remedy: str) -> None:
    """Whole or not at all; raises ConfigError where there is no room."""
    from specviz.store.files import write_file

    try:
        write_file(path, text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{option}: {path} cannot be written: {reason}.", remedy=remedy) from None
    print(f"saved {one_line(str(path))}", file=sys.stderr)
