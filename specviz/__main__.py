"""``python -m specviz``: the command line."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def start() -> int:
    """Ctrl-C may come while the commands are still being imported."""
    try:
        from specviz.cli import main

        return main()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("\ninterrupted\n")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(start())
