"""Who may log in, and with which role.

A table maps e-mail addresses to roles. An address ``*@uni.example`` is every address of that
domain, but of none of its subdomains. A person's own entry counts before the entry of a domain.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from specviz.access.roles import Role
from specviz.errors import ConfigError
from specviz.folders import data_folder

SETTINGS = "SPECVIZ_SETTINGS"

ROLES = {role.name.lower(): role for role in Role}
NOBODY = "none"
_LONGEST_ADDRESS = 254  # characters, the limit of RFC 5321


class People:
    """The roles of people, by e-mail address.

    Raises:
        ConfigError: A role is unknown, or an address is not valid.
    """

    def __init__(
        self, table: Mapping[str, str] = MappingProxyType({}), *, others: str = NOBODY
    ) -> None:
        self._roles = {_checked(address): _role(address, name) for address, name in table.items()}
        self._others = _role("others", others)

    def role_of(self, address: str) -> Role | None:
        """Return a person's role; None if the person may not log in."""
        key = person_key(address)
        if key is None:
            return None
        domain = f"*@{key.partition('@')[2]}"
        for entry in (key, domain):
            if entry in self._roles:
                return self._roles[entry]
        return self._others


def role_of(address: str) -> Role | None:
    """Return a person's role according to the settings file, which is read when it changes.

    Raises:
        ConfigError: The file is not valid.
    """
    path = Path(os.environ.get(SETTINGS) or data_folder() / "specviz.toml")
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return None
    return _people_in(path, changed).role_of(address)


@lru_cache(maxsize=2)
def _people_in(path: Path, changed: int) -> People:
    del changed
    try:
        table = dict(tomllib.loads(path.read_text("utf-8")).get("people", {}))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"The settings file {path.name} is not valid TOML ({error}).", remedy="Correct it."
        ) from None
    others = table.pop("others", NOBODY)
    return People(table, others=others)


def person_key(address: object) -> str | None:
    """Return an e-mail address in lower case; None if it is not a plain address."""
    if not isinstance(address, str) or not 3 <= len(address) <= _LONGEST_ADDRESS:
        return None
    key = address.lower()
    name, at, domain = key.partition("@")
    plain = key.isprintable() and not any(each in key for each in ' ,;<>"*')
    return key if at and name and domain and "@" not in domain and plain else None


def _checked(address: str) -> str:
    key = address.lower()
    if person_key(f"x{key[1:]}" if key.startswith("*@") else key) is None:
        raise ConfigError(
            f"[people] has the key {address!r}, which is not an e-mail address.",
            remedy='Write "name@domain", or "*@domain" for everybody of a domain.',
        )
    return key


def _role(address: str, name: object) -> Role | None:
    if name == NOBODY:
        return None
    if not isinstance(name, str) or name not in ROLES:
        raise ConfigError(
            f"[people] gives {address!r} the role {name!r}.",
            remedy=f"Use one of {', '.join((*ROLES, NOBODY))}.",
        )
    return ROLES[name]
