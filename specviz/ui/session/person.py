"""The person whose script runs."""

from __future__ import annotations

from specviz.access.demo import is_demo
from specviz.access.roles import EVERYBODY, OPEN_OWNER, Person


def the_person() -> Person:
    """Return the person of the current script."""
    return EVERYBODY if is_demo() else OPEN_OWNER
