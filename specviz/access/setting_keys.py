"""The sections and keys of the settings file: what each value may be, and how it is read.

A reader raises ValueError with the allowed values if a value is not valid.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from specviz.access.addresses import ListedAddress, parse_listed
from specviz.access.people import person_key
from specviz.access.roles import Role

Reader = Callable[[Any], Any]
ROLES: dict[str, Role | None] = {"none": None} | {role.name.lower(): role for role in Role}
OTHERS = "others"
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?B)?", re.ASCII | re.IGNORECASE)
_MOST_ENTRIES = 1000


def whole(low: int, high: int) -> Reader:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"a whole number from {low:,} to {high:,}")
        return value

    return read


def size(low: int, high: int) -> Reader:
    """Read a number of bytes: a whole number, or text such as "8 GB". Units are decimal."""

    def read(value: Any) -> int:
        found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is not None:
            value = round(float(found[1]) * _UNITS[(found[2] or "").upper()])
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f'bytes, or text such as "500 MB" or "8 GB", at least {low:,} bytes')
        return value

    return read


def yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def folders(value: Any) -> tuple[str, ...]:
    """Read absolute paths; ``~`` is the home folder of the user who started the dashboard."""
    given = _texts(value, 'a list of absolute folders, such as ["/srv/models"]')
    paths = [os.path.expanduser(each) for each in given]
    if not all(os.path.isabs(each) and "\0" not in each for each in paths):
        raise ValueError('a list of absolute folders, such as ["/srv/models"]')
    return tuple(paths)


def addresses(value: Any) -> tuple[ListedAddress, ...]:
    form = 'a list of addresses, such as ["https://gpu.example:8000", "10.0.0.0/24"]'
    listed: list[ListedAddress] = []
    for each in _texts(value, form):
        try:
            listed.append(parse_listed(each.strip().lower()))
        except ValueError as error:
            raise ValueError(f"{form}; {each!r:.80} is not allowed: {error}") from None
    return tuple(listed)


def others(value: Any) -> Role | None:
    if value not in ("none", "viewer", "student"):
        raise ValueError('"none", "viewer" or "student"')
    return ROLES[value]


def people(section: Mapping[str, Any]) -> tuple[tuple[str, Role | None], ...]:
    """Read each person's role, by lower-case address; ``section`` must lack the key ``others``."""
    roles: dict[str, Role | None] = {}
    for name, value in section.items():
        of_domain = name.startswith("*@")
        key = person_key(f"x{name[1:]}" if of_domain else name)
        if key is None:
            raise KeyError(name)
        address = f"*{key[1:]}" if of_domain else key
        if not isinstance(value, str) or value not in ROLES or address in roles:
            raise ValueError(name)
        roles[address] = ROLES[value]
    return tuple(roles.items())


def _texts(value: Any, form: str) -> list[str]:
    if not isinstance(value, list) or len(value) > _MOST_ENTRIES:
        raise ValueError(form)
    if not all(isinstance(each, str) and each.strip() for each in value):
        raise ValueError(form)
    return value


_ANY_SIZE = 10**18
SECTIONS: Mapping[str, Mapping[str, Reader]] = {
    "people": {OTHERS: others},  # and one key for each person
    "limits": {
        "tokens": whole(1, 1_000_000),
        "gamma": whole(1, 64),
        "candidates": whole(1, 1024),
        "runs_per_minute": whole(1, 10_000),
        "runs_at_once": whole(1, 1000),
        "prompt_characters": whole(1, 100_000_000),
        "request_body": size(100_000, _ANY_SIZE),
    },
    "models": {"folders": folders, "hub": yes_or_no, "largest": size(1, _ANY_SIZE)},
    "servers": {"addresses": addresses},
    "library": {"quota": size(1_000_000, _ANY_SIZE)},
}
