"""``python -m specviz``: the command line."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def start() -> int:
    """The import is in here, because Ctrl-C may come while it is under way."""
    try:
        from specviz.cli import main

        return main()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("\ninterrupted\n")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(start())
