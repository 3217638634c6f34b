"""The person whose script runs."""

from __future__ import annotations

from specviz.access.roles import OPEN_OWNER, Person


def the_person() -> Person:
    """Return the person of the current script."""
    return OPEN_OWNER
