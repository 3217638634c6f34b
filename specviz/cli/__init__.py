"""The command line: ``python -m specviz run | show | bench | compare``.

``main`` returns the exit code: 0, or 1 where ``compare`` finds a regression, or 2 after one line
on standard error for what the user can mend, or 130 after Ctrl-C. Only here do errors become
exit codes. Importing this loads neither torch nor streamlit.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence

from specviz.cli import bench, compare, run, show
from specviz.cli.options import UsageError, build_parser
from specviz.cli.painter import one_line
from specviz.errors import SpecvizError

BAD_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141

COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": run.command,
    "show": show.command,
    "bench": bench.command,
    "compare": compare.command,
}


def main(argv: Sequence[str] | None = None) -> int:
    _tolerate_any_encoding()
    try:
        code = _obey(argv)
        sys.stdout.flush()
    except UsageError as error:
        return _complain(error, f"try: {error.command} --help")
    except SpecvizError as error:
        return _complain(error)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        return _leave_quietly()
    return code


def _obey(argv: Sequence[str] | None) -> int:
    try:
        options = build_parser().parse_args(argv)
    except SystemExit as done:  # --help
        return int(done.code or 0)
    return COMMANDS[options.command](options)


def _complain(error: Exception, hint: str | None = None) -> int:
    print(f"error: {one_line(str(error))}", file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)
    return BAD_INPUT


def _leave_quietly() -> int:
    """The reader is gone; keep the interpreter from flushing into its closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def _tolerate_any_encoding() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
