"""Whether access is controlled, and what the gate and the pages know about it.

Every connection needs a session (see ``gate``) if ``SPECVIZ_TOKEN`` is set or Streamlit's secrets
name a login provider. Otherwise, a dashboard on a loopback address needs no sessions; on any other
address, every connection needs a session.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from specviz.access.roles import OPEN_OWNER, Person, Role
from specviz.access.sessions import Session, Sessions
from specviz.access.settings import the_settings
from specviz.errors import ConfigError
from specviz.ui.access.addresses import configured_address, is_loopback
from specviz.ui.access.providers import configured_providers
from specviz.values import Value

TOKEN = "SPECVIZ_TOKEN"
SHORTEST = 16  # least number of characters of a token
TOKEN_SECONDS = 7 * 24 * 3600  # of a session that the token opened
LOGIN_SECONDS = 12 * 3600  # of a session that a login opened, since the login
_FIRST_PENALTY, _LONGEST_PENALTY = 0.5, 8.0  # seconds
_FORGOTTEN_AFTER = 300.0  # seconds since the last wrong token
_MOST_CLIENTS = 1000
_LOGIN_WAIT = 600.0  # seconds in which a person must come back from the login provider
_MOST_LOGINS, _MOST_LOGINS_OF_ONE = 5000, 100  # begun and not finished; of one client

_UNFIT = re.compile(r"[^A-Za-z0-9._~-]")  # characters that must be escaped in a link


@dataclass(slots=True)
class Penalties:
    """How long each client must wait. Every wrong token doubles the delay, up to a limit."""

    now: Callable[[], float] = time.monotonic
    _clients: dict[str, tuple[int, float]] = field(default_factory=dict)  # failures, time of last

    def remaining(self, client: str) -> float:
        """Return the seconds until a token from this client is checked again."""
        failures, last = self._clients.get(client, (0, 0.0))
        penalty = min(_LONGEST_PENALTY, _FIRST_PENALTY * 2 ** min(failures - 1, 10))
        return max(0.0, last + penalty - self.now()) if failures else 0.0

    def add(self, client: str) -> None:
        """Record that this client sent a wrong token."""
        now = self.now()
        failures, last = self._clients.pop(client, (0, 0.0))
        if now - last > _FORGOTTEN_AFTER:
            failures = 0
        self._clients[client] = failures + 1, now  # the dict stays sorted by time
        while len(self._clients) > _MOST_CLIENTS or self._oldest() < now - _FORGOTTEN_AFTER:
            del self._clients[next(iter(self._clients))]

    def _oldest(self) -> float:
        return next(iter(self._clients.values()))[1]


class _BegunLogin(Value):
    page: str  # where the browser goes afterwards, relative to the dashboard
    client: str
    begun: float


@dataclass(slots=True)
class BegunLogins:
    """The logins that wait for the provider's answer, by state. Each login accepts one answer."""

    now: Callable[[], float] = time.monotonic
    _begun: dict[str, _BegunLogin] = field(default_factory=dict)

    def too_many(self, client: str) -> bool:
        self._forget_old()
        mine = sum(each.client == client for each in self._begun.values())
        return mine >= _MOST_LOGINS_OF_ONE or len(self._begun) >= _MOST_LOGINS

    def add(self, state: str, page: str, client: str) -> None:
        self._begun[state] = _BegunLogin(page=page, client=client, begun=self.now())

    def take(self, state: str) -> str | None:
        """Return the page to open after the login with this state, and forget the login.

        The result is None if there is no such login, or if it is too old.
        """
        self._forget_old()
        begun = self._begun.pop(state, None)
        return begun.page if begun is not None else None

    def _forget_old(self) -> None:
        oldest = self.now() - _LOGIN_WAIT
        self._begun = {state: each for state, each in self._begun.items() if each.begun > oldest}


@dataclass(slots=True, kw_only=True)
class Access:
    """The access token of this server, its sessions, and the state of the gate."""

    token: str
    chosen: bool = False  # whether SPECVIZ_TOKEN set the token
    providers: tuple[str, ...] = ()  # names of the login providers
    now: Callable[[], float] = time.time
    role_of: Callable[[str], Role | None] = lambda address: the_settings().role_of(address)
    penalties: Penalties = field(default_factory=Penalties)
    logins: BegunLogins = field(default_factory=BegunLogins)
    reached: bool = False  # whether a connection has arrived at a network address
    guarded: bool = False  # whether the gate is in front of the pages
    announced: bool = False  # whether the link was printed
    # Marks connections that need no session. Nobody else knows it, so nobody else can send it.
    open_mark: str = field(default_factory=secrets.token_urlsafe, repr=False)
    sessions: Sessions = field(init=False)

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.now)

    @property
    def always(self) -> bool:
        """Whether even connections on a loopback address need a session."""
        return self.chosen or bool(self.providers)

    def is_token(self, sent: str) -> bool:
        return hmac.compare_digest(sent.encode(errors="replace"), self.token.encode())

    def person_of(self, session: Session | None) -> Person | None:
        """Return the session's person with the present role; None if the person may not enter."""
        if session is None:
            return None
        return self.known_person(session.person)

    def known_person(self, key: str) -> Person | None:
        """Return the person with this key; None if the settings do not let the person in."""
        if not key:
            return OPEN_OWNER
        try:
            role = self.role_of(key)
        except ConfigError:  # the settings were never valid
            return None
        return None if role is None else Person(key=key, role=role)


@cache
def the_access() -> Access:
    """Return this server's ``Access``.

    Raises:
        ConfigError: ``SPECVIZ_TOKEN`` or the secrets of the login are invalid.
    """
    chosen = os.environ.get(TOKEN)
    providers = configured_providers()
    if chosen is None:
        return Access(token=secrets.token_urlsafe(32), providers=providers)
    if len(chosen) < SHORTEST:
        raise ConfigError(
            f"{TOKEN} has only {len(chosen)} characters.",
            remedy=f"Use at least {SHORTEST} characters, or unset the variable to have a token "
            "generated.",
        )
    if _UNFIT.search(chosen):
        raise ConfigError(
            f"{TOKEN} has characters that are not allowed in a link.",
            remedy="Use only letters A to Z, digits, and the characters . _ ~ -",
        )
    return Access(token=chosen, chosen=True, providers=providers)


def require_usable_access() -> None:
    """Exit with a one-line message if the settings file, the token or the login are not valid."""
    try:
        the_settings()
        the_access()
    except ConfigError as error:
        raise SystemExit(str(error)) from None


def reachable_by_others() -> bool:
    """Return whether people other than the owner may reach the dashboard.

    If ``SPECVIZ_TOKEN`` or a login is set up, the result is True even on a loopback address,
    because a reverse proxy may forward requests from other people.
    """
    access = the_access()
    return access.always or access.reached or not is_loopback(configured_address())
