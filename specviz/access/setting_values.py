"""What the owner of a dashboard sets: people and roles, limits, models, servers, the library.

The settings are in one TOML file. ``SPECVIZ_SETTINGS`` has the path of this file; by default, it is
``specviz.toml`` in the data folder. Without a file, the default settings apply. The module
``settings`` reads the file.
"""

from __future__ import annotations

from specviz.access.addresses import ListedAddress
from specviz.access.people import person_key
from specviz.access.roles import Role
from specviz.values import Value

MB = 10**6


class Limits(Value):
    """The limits of students; ``request_body`` applies to the requests of all people."""

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
    people: tuple[tuple[str, Role | None], ...] = ()  # by e-mail address or *@DOMAIN, lower case
    others: Role | None = None  # everybody else who has logged in
    limits: Limits = Limits()
    models: ModelRules = ModelRules()
    servers: tuple[ListedAddress, ...] | None = None  # None if the file has no list
    quota: int | None = None  # bytes of the run library

    def role_of(self, email: str) -> Role | None:
        """Return the role of a person who has logged in; None if they may not enter.

        An entry for the address overrides an entry for its domain. ``*@uni.example`` does not
        include the subdomains of uni.example.
        """
        key = person_key(email)
        if key is None:
            return None
        roles = dict(self.people)
        domain = f"*@{key.partition('@')[2]}"
        return roles.get(key, roles.get(domain, self.others))


DEFAULTS = Settings()
