"""The command line: ``specviz``, or ``python -m specviz``, with one of the commands below.

Without a command, the dashboard starts.

``main`` returns the exit code:

* 0: success.
* 1: ``compare`` found a regression; ``audit`` found that the output does not have the
  target's distribution; ``doctor`` found better settings for a head, or an engine that accepts
  too little.
* 2: a user error, with one line on standard error.
* 70: ``compare`` failed unexpectedly (1 would mean a regression).
* 130: Ctrl-C.
* 141: the reader closed standard output; nothing is printed.

Importing this module loads neither torch nor streamlit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from specviz.cli import (
    attach,
    audit,
    bench,
    compare,
    costs,
    dashboard,
    doctor,
    info,
    load,
    models,
    run,
    score,
    settings,
    show,
    train,
    tune,
    winrate,
)
from specviz.cli.options import UsageError, build_parser, program
from specviz.cli.standard_streams import OutputError, discard_output, prepare_streams
from specviz.cli.terminal_text import one_line
from specviz.errors import SpecvizError
from specviz.kernels.ahead import compile_ahead

_WITHOUT_A_PAIR = ("show", "attach", "models", "load", "settings", "info")
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
    "doctor": doctor.command,
    "attach": attach.command,
    "models": models.command,
    "costs": costs.command,
    "train": train.command,
    "winrate": winrate.command,
    "load": load.command,
    "settings": settings.command,
    "info": info.command,
}


def main(argv: Sequence[str] | None = None) -> int:
    try:
        prepare_streams()
        code = _exit_code(argv)
        sys.stdout.flush()
    except OutputError as error:
        discard_output()
        return _print_error(error)
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
        return _print_error(error, f"try: {error.command} --help")
    except SpecvizError as error:
        return _print_error(error)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED


def _command(argv: Sequence[str] | None) -> int:
    try:
        options = build_parser().parse_args(argv)
    except SystemExit as done:  # --help
        return int(done.code or 0)
    if options.command is None:
        return dashboard.command(options)
    if option := dashboard.given_option(options):
        raise UsageError(f"{option} before a command is an option of the dashboard", program())
    if options.command not in _WITHOUT_A_PAIR:
        compile_ahead()
    return COMMANDS[options.command](options)


def _print_error(error: Exception, hint: str | None = None) -> int:
    message = error.in_full if isinstance(error, SpecvizError) else str(error)
    print(f"error: {one_line(message)}", file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)
    return BAD_INPUT
