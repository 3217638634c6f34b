"""The command line: ``python -m specviz run``, ``show``, ``bench``, ``compare``, ``score``,
``tune``, ``audit``, ``attach``.

``main`` returns the exit code. It is 0, or 1 if ``compare`` finds a regression or ``audit`` a text
that is not the target's, 2 after an error that the user can mend (told in one line on standard
error), 70 if ``compare`` fails unexpectedly (1 would read as a regression), 130 after Ctrl-C, and
141, silently, if the reader of the output has left. Importing this loads neither torch nor
streamlit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from specviz.cli import attach, audit, bench, compare, run, score, show, tune
from specviz.cli.options import UsageError, build_parser
from specviz.cli.standard_streams import OutputError, discard_output, prepare_streams
from specviz.cli.terminal_text import one_line
from specviz.errors import SpecvizError
from specviz.kernels.ahead import compile_ahead

BAD_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141

COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": run.command,
    "show": show.command,
    "bench": bench.command,
    "compare": compare.command,
    "score": score.command,
    "tune": tune.command,
    "audit": audit.command,
    "attach": attach.command,
}


def main(argv: Sequence[str] | None = None) -> int:
    try:
        prepare_streams()
        code = _exit_code(argv)
        sys.stdout.flush()
    except OutputError as error:
        discard_output()
        return _complain(error)
    except BrokenPipeError:
        discard_output()
        return BROKEN_PIPE
    return code


def _exit_code(argv: Sequence[str] | None) -> int:
    try:
        return _command(argv)
    except OutputError:
        raise
    except UsageError as error:
        return _complain(error, f"try: {error.command} --help")
    except SpecvizError as error:
        return _complain(error)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED


def _command(argv: Sequence[str] | None) -> int:
    try:
        options = build_parser().parse_args(argv)
    except SystemExit as done:  # --help
        return int(done.code or 0)
    if options.command not in ("show", "attach"):  # the others load a pair
        compile_ahead()
    return COMMANDS[options.command](options)


def _complain(error: Exception, hint: str | None = None) -> int:
    words = error.in_full if isinstance(error, SpecvizError) else str(error)
    print(f"error: {one_line(words)}", file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)
    return BAD_INPUT
