"""Run the command line with ``python -m specviz``."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def start() -> int:
    """Run the command line and return its exit code. Ctrl-C during the import is handled, too."""
    try:
        from specviz.cli import main

        return main()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("\ninterrupted\n")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(start())
