"""Start specviz: ``specviz`` or ``python -m specviz``, with or without a command."""

from __future__ import annotations

import sys

CLASH = 2
INTERRUPTED = 130


def start() -> int:
    """Run the command line and return its exit code. Ctrl-C during the import is handled, too.

    If another distribution has also installed a module ``specviz``, the files of both modules are
    mixed in one folder, so nothing is started.
    """
    try:
        from specviz.installation import DISTRIBUTION, foreign_owner

        if (owner := foreign_owner()) is not None:
            sys.stderr.write(
                f"error: The package {owner} is installed, too, and has a module of the same name. "
                f"Install {DISTRIBUTION} into another virtual environment.\n"
            )
            return CLASH
        from specviz.cli import main

        return main()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("\ninterrupted\n")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(start())
