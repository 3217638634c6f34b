"""What the owner of a dashboard sets: people and roles, limits, models, servers, the library.

The settings are in one TOML file: the one that ``SPECVIZ_SETTINGS`` names, else ``specviz.toml`` in
the data folder. Without a file, the defaults apply. ``settings`` reads the file.
"""

from __future__ import annotations

import re

from specviz.access.addresses import ListedAddress
from specviz.access.roles import Role
from specviz.values import Value

MB = 10**6
_EMAIL = re.compile(r"[^\s@*]+@[^\s@*]+")


def email_key(email: str) -> str:
    """Return an e-mail address in the form in which addresses are compared; "" if it is none.

    Only A to Z become lower case: other letters, such as the Kelvin sign, would become an ASCII
    letter, and so somebody else's address.
    """
    if not _EMAIL.fullmatch(email) or not email.isprintable():
        return ""
    return "".join(each.lower() if each.isascii() else each for each in email)


class Limits(Value):
    """The limits of students; ``request_body`` applies to every request, whoever sends it."""

    tokens: int = 256  # new tokens of a run
    gamma: int = 16  # candidates of a chain, or the depth of a tree
    candidates: int = 64  # candidates of a round, over all chains or in the tree
    runs_per_minute: int = 12
    runs_at_once: int = 2
    prompt_characters: int = 8000
    request_body: int = 211 * MB  # just above Streamlit's own limit of an upload, 200 MiB


class ModelRules(Value):
    """Which models anybody may open. ``folders`` is None if the file has no list of folders."""

    folders: tuple[str, ...] | None = None
    hub: bool = True
    largest: int | None = None  # bytes of the weights' files


class Settings(Value):
    people: tuple[tuple[str, Role], ...] = ()  # e-mail addresses and *@DOMAIN, in lower case
    others: Role | None = None  # everybody else who has logged in
    limits: Limits = Limits()
    models: ModelRules = ModelRules()
    servers: tuple[ListedAddress, ...] | None = None  # None if the file has no list
    quota: int | None = None  # bytes of the run library

    def role_of(self, email: str) -> Role | None:
        """Return the role of a person who has logged in; None if they may not enter.

        An entry for the address comes before one for its domain. ``*@uni.example`` does not
        include the subdomains of uni.example.
        """
        address = email_key(email)
        if not address:
            return None
        roles = dict(self.people)
        domain = f"*@{address.rpartition('@')[2]}"
        return roles.get(address, roles.get(domain, self.others))


DEFAULTS = Settings()
