"""Who is logged in: sessions that the server keeps and the owner can end.

A browser has a secret in a cookie. The server keeps only the secret's hash, the ``handle``, with
the person's key and the times. A session has no role: the role is looked up in the settings at
every use, so that a change of the settings takes effect at once.

Sessions are kept in memory. They end with the server, so a restart logs everybody out, and no file
contains anything with which somebody could log in.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import field
from threading import Lock

from specviz.values import Value

_CLOCK_SKEW = 300.0  # seconds; accepts a session after the clock was set back a little
_MOST = 5000
_MOST_OF_ONE = 100  # so that one person cannot end the sessions of others


class Session(Value):
    """One login in one browser.

    ``leaving`` is a secret in the link *Log out*, so that no other site can end the session.
    ``identity`` has the cookies that a logout at the login provider needs.
    """

    handle: str
    person: str  # the person's key; "" for the owner with the access token
    issued: float
    expires: float
    leaving: str = field(repr=False)
    identity: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class Sessions:
    """All open sessions, the newest last. Safe to call from any thread."""

    def __init__(
        self, now: Callable[[], float] = time.time, *, most: int = _MOST, each: int = _MOST_OF_ONE
    ) -> None:
        self._now, self._most, self._each = now, most, each
        self._sessions: dict[str, Session] = {}
        self._lock = Lock()

    def open(
        self, person: str, *, seconds: float, identity: tuple[tuple[str, str], ...] = ()
    ) -> str:
        """Open a session of a person; return the secret for the cookie.

        If this person has too many sessions, end the person's oldest sessions. If there are too
        many sessions in total, end the oldest sessions of all people.
        """
        secret, now = secrets.token_urlsafe(32), self._now()
        session = Session(
            handle=_handle(secret), person=person, issued=now, expires=now + seconds,
            leaving=secrets.token_urlsafe(16), identity=identity,
        )  # fmt: skip
        with self._lock:
            self._forget_expired()
            own = [each.handle for each in self._sessions.values() if each.person == person]
            for handle in own[: max(0, len(own) - self._each + 1)]:
                del self._sessions[handle]
            while len(self._sessions) >= self._most:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[session.handle] = session
        return secret

    def of_cookie(self, secret: str) -> Session | None:
        """Return the open session to which a cookie belongs, or None."""
        return self.find(_handle(secret))

    def find(self, handle: str | None) -> Session | None:
        """Return the open session with this handle, or None."""
        with self._lock:
            session = self._sessions.get(handle or "")
            return session if session is not None and self._is_open(session) else None

    def all(self) -> tuple[Session, ...]:
        with self._lock:
            self._forget_expired()
            return tuple(self._sessions.values())

    def end(self, handle: str) -> Session | None:
        """End a session, and return it if it was open."""
        with self._lock:
            session = self._sessions.pop(handle, None)
            return session if session is not None and self._is_open(session) else None

    def end_all_of(self, person: str) -> int:
        """End all sessions of a person; return how many were open."""
        return sum(
            self.end(each.handle) is not None for each in self.all() if each.person == person
        )

    def _is_open(self, session: Session) -> bool:
        return session.issued - _CLOCK_SKEW <= self._now() < session.expires

    def _forget_expired(self) -> None:
        self._sessions = {
            handle: each for handle, each in self._sessions.items() if self._is_open(each)
        }


def _handle(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
