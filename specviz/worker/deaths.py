"""How the worker process ended, in plain words."""

from __future__ import annotations

import signal

from specviz.errors import SpecvizError

_REMEDY = "Its finished rounds are kept. Run again, or choose a smaller pair."


def death(code: int | None) -> SpecvizError:
    """For a process that had been at work."""
    return SpecvizError(f"The worker process {_ended(code)}.", remedy=_REMEDY)


def stillbirth(code: int | None) -> SpecvizError:
    """For a process that never said hello."""
    return SpecvizError(
        f"The worker process could not start: it {_ended(code)}.",
        remedy="Look in the terminal for the reason, mend it, and run again.",
    )


def _ended(code: int | None) -> str:
    if code is None:
        return "was never there"
    if code >= 0:
        return f"ended by itself (exit code {code})"
    if -code == signal.SIGKILL:
        return "was killed (signal 9), perhaps because memory ran out"
    return f"was ended by signal {-code} ({signal.strsignal(-code) or 'unknown'})"
