"""The gate: ASGI middleware that lets no request pass without a session.

A browser gets a session for the token in a link, or for a login at a provider. A cookie contains
the session's secret. To each request, the gate adds a header that names the session
(``SESSION_HEADER``). The pages read this header. A client cannot send it, because the gate removes
the client's header.

The gate encrypts nothing: without https, the token and the cookie cross the network in the clear.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specviz.access.demo import is_demo
from specviz.access.roles import EVERYBODY, OPEN_OWNER, Action, Person
from specviz.access.sessions import Session
from specviz.ui.access import answers, providers
from specviz.ui.access.addresses import (
    client_of,
    configured_address,
    is_encrypted,
    is_loopback,
    server_of,
)
from specviz.ui.access.answers import put_cookie, redirect, refusal
from specviz.ui.access.inner_requests import answer_of, forwarded
from specviz.ui.access.link import announce_once
from specviz.ui.access.origins import is_own_origin
from specviz.ui.access.sockets import checked_receive
from specviz.ui.access.state import LOGIN_SECONDS, TOKEN_SECONDS, Access, the_access

SESSION_HEADER = "X-Specviz-Session"
PERSON_IN_SCOPE = "specviz.person"  # key of a request's ASGI scope: who is logged in
# Streamlit remembers it with a tab's state, and gives the state to no other person
# (``server.trustedUserHeaders`` in .streamlit/config.toml).
PERSON_HEADER = "X-Specviz-Person"
_OWN_HEADERS = {each.lower().encode() for each in (SESSION_HEADER, PERSON_HEADER)}
_AGENT, _UPLOAD = ("_stcore", "agent"), ("_stcore", "upload_file")
_LONGEST_PLACE = 4000  # characters of an address that is kept during a login
_FRAMES = "frame-ancestors 'self'"
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class AccessGate:
    """Middleware that checks the requests of guarded connections (see ``_guards``).

    The gate must be the first middleware: everything before it is open to everybody.
    """

    def __init__(self, app: ASGIApp, access: Access | None = None) -> None:
        self._app = app
        self._access = access or the_access()
        self._access.guarded = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        scope["headers"] = [each for each in scope["headers"] if each[0] not in _OWN_HEADERS]
        if not self._guards(scope):
            person = EVERYBODY if is_demo() else OPEN_OWNER
            _add_headers(scope, self._access.open_mark, "")
            scope[PERSON_IN_SCOPE] = person
            if is_demo() and scope["type"] == "websocket":
                receive = checked_receive(receive, send, lambda: person)
            # The demo changes nothing, and Hugging Face shows it in a frame.
            await self._app(scope, receive, send if is_demo() else _without_frames(send))
        elif scope["type"] == "websocket":
            await self._connect(scope, receive, send)
        else:
            await self._request(scope, receive, send)

    def _guards(self, scope: Scope) -> bool:
        """Return whether this connection needs a session, and update ``Access.reached``.

        An ASGI server other than Streamlit's own ignores Streamlit's options, so it may use another
        address than these options name. This method therefore also checks the connection's local
        address.
        """
        outside = not is_loopback(server_of(scope)[0])
        self._access.reached |= outside
        if is_demo():  # everybody may see it, unless a token was chosen
            return self._access.always
        return outside or self._access.always or not is_loopback(configured_address())

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        answers.take_fields(scope)
        session = self._session_of(scope)
        if session is None or not is_own_origin(scope):
            if session is None:
                announce_once(self._access, scope)
            await send({"type": "websocket.close", "code": 1008})  # closed before accept: 403
            return
        _add_headers(scope, session.handle, session.person)
        handle, sessions = session.handle, self._access.sessions

        def person() -> Person | None:
            return self._access.person_of(sessions.find(handle))

        await self._app(scope, checked_receive(receive, send, person), send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        fields = answers.take_fields(scope)
        session = self._session_of(scope)
        if scope["method"] == "GET":
            response = await self._entry(scope, receive, fields, session)
            if response is not None:
                if response.status_code == 401:
                    announce_once(self._access, scope)
                await response(scope, receive, send)
                return
        person = self._access.person_of(session)
        if session is None or person is None:
            announce_once(self._access, scope)
            await self._missing(scope)(scope, receive, send)
        elif (status := _forbidden(scope, person)) is not None:
            text = "Not found.\n" if status == 404 else "Refused.\n"
            await PlainTextResponse(text, status, answers.HEADERS)(scope, receive, send)
        else:
            scope[PERSON_IN_SCOPE] = person
            await self._app(scope, receive, _without_frames(send))

    async def _entry(
        self, scope: Scope, receive: Receive, fields: dict[str, str], session: Session | None
    ) -> Response | None:
        """Return the response to a request that begins or ends a session, else None."""
        if sent := fields.get(answers.TOKEN_FIELD):
            return self._exchange(scope, sent, session)
        if session is not None and fields.get(answers.LOGOUT_FIELD) == session.leaving:
            return await self._log_out(scope, receive, session)
        if answers.LOGOUT_FIELD in fields or answers.LOGIN_FIELD in fields:
            known = session is not None or not self._access.providers
            if known or answers.LOGOUT_FIELD in fields:
                return redirect(answers.place_of(scope))
            return await self._begin_login(scope, receive, fields[answers.LOGIN_FIELD])
        if self._access.providers and providers.is_route(scope, providers.CALLBACK):
            return await self._finish_login(scope, receive)
        return None

    # The token

    def _exchange(self, scope: Scope, sent: str, session: Session | None) -> Response:
        """Return the response to a token that a client sent.

        If the token is right, open a session and redirect the browser. If it is wrong, delay the
        client's next attempt and return a refusal. During the delay, refuse every token. A browser
        with a session gets a redirect without a cookie instead of a refusal.
        """
        penalties, client = self._access.penalties, client_of(scope)
        wait = penalties.remaining(client)
        if not wait:
            if self._access.is_token(sent):
                return self._opened(scope, answers.place_of(scope), "", TOKEN_SECONDS, session)
            penalties.add(client)
        if session is not None:
            return redirect(answers.place_of(scope))
        if wait:
            seconds = math.ceil(wait)
            text = f"Too many wrong tokens. This page tries again in {seconds} s."
            return self._page(scope, 429, text, retry=seconds)
        return self._page(scope, 401, answers.WRONG)

    def _opened(
        self,
        scope: Scope,
        place: str,
        person: str,
        seconds: float,
        earlier: Session | None,
        identity: tuple[tuple[str, str], ...] = (),
    ) -> Response:
        """Open a session in place of the browser's earlier one; redirect the browser to a page."""
        sessions = self._access.sessions
        if earlier is not None:
            sessions.end(earlier.handle)
        response = redirect(place)
        secret = sessions.open(person, seconds=seconds, identity=identity)
        put_cookie(response, scope, _cookie_name(scope), secret, seconds)
        return response

    # The login

    async def _begin_login(self, scope: Scope, receive: Receive, provider: str) -> Response:
        """Send the browser to a login provider."""
        logins, client = self._access.logins, client_of(scope)
        if provider not in self._access.providers:
            return redirect(answers.place_of(scope))
        if logins.too_many(client):
            return self._page(scope, 429, answers.BUSY)
        request = providers.login_request(scope, provider)
        start, _ = await answer_of(self._app, request, receive)
        location = providers.location_of(start)
        state = providers.state_of(location)
        if start["status"] not in (302, 303) or not state:
            return self._page(scope, 502, answers.UNREACHABLE)
        place = answers.place_of(scope)
        logins.add(state, place if len(place) <= _LONGEST_PLACE else "./", client)
        return forwarded(start, secure=is_encrypted(scope))

    async def _finish_login(self, scope: Scope, receive: Receive) -> Response:
        """Open a session for a browser that comes back from the login provider.

        The query contains the provider's code. The code is removed before the server logs the
        query.
        """
        inner = dict(scope)
        scope["query_string"] = b""
        sent = parse_qs(inner["query_string"].decode("latin-1"))
        if "state" not in sent:  # the provider has ended its own session
            return redirect("./")
        place = self._access.logins.take(sent["state"][0])
        if place is None or len(sent["state"]) > 1:
            return self._page(scope, 400, answers.LOGIN_OVER)
        start, _ = await answer_of(self._app, inner, receive)
        identity = providers.identity_in(start, self._access.now())
        if identity is None:
            response = self._page(scope, 403, answers.LOGIN_FAILED)
        elif identity.person is None:
            response = self._page(scope, 403, answers.NOT_VERIFIED)
        elif self._access.known_person(identity.person) is None:
            response = self._page(scope, 403, answers.NOT_LISTED)
        else:
            seconds = identity.issued + LOGIN_SECONDS - self._access.now()
            response = self._opened(
                scope, place, identity.person, seconds, self._session_of(scope), identity.cookies
            )
        return forwarded(start, secure=is_encrypted(scope), into=response)

    async def _log_out(self, scope: Scope, receive: Receive, session: Session) -> Response:
        """End a session here and, if the provider supports it, at the login provider."""
        self._access.sessions.end(session.handle)
        response = self._page(scope, 200, answers.LOGGED_OUT)
        if session.identity:
            request = providers.logout_request(scope, session.identity)
            start, _ = await answer_of(self._app, request, receive)
            if providers.location_of(start).startswith(("https://", "http://")):
                response = redirect(providers.location_of(start))
        put_cookie(response, scope, _cookie_name(scope), "", 0)
        return response

    # Refusals

    def _session_of(self, scope: Scope) -> Session | None:
        """Return the session that a cookie names, if the session's person may still enter."""
        found = map(self._access.sessions.of_cookie, _cookies(scope))
        return next((each for each in found if self._access.person_of(each) is not None), None)

    def _missing(self, scope: Scope) -> Response:
        known = any(map(self._access.sessions.of_cookie, _cookies(scope)))
        if known:
            return self._page(scope, 403, answers.NOT_LISTED)
        text = answers.LOG_IN if self._access.providers else answers.MISSING
        return self._page(scope, 401, text)

    def _page(self, scope: Scope, status: int, text: str, *, retry: int = 0) -> Response:
        return refusal(scope, status, text, providers=self._access.providers, retry=retry)


def _add_headers(scope: Scope, session: str, person: str) -> None:
    added = {SESSION_HEADER: session, PERSON_HEADER: quote(person)}
    scope["headers"] += [(name.lower().encode(), text.encode()) for name, text in added.items()]


def _without_frames(send: Send) -> Send:
    """Return a ``send`` that forbids other origins to show the response in a frame.

    A page with such a frame could make a person click on a button of the dashboard without seeing
    it. Without a login, any page on the internet could do so, as the dashboard is on the person's
    own machine. With a login, pages of the same site could: there, a frame gets the cookie.
    """

    async def send_marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).append("Content-Security-Policy", _FRAMES)
        await send(message)

    return send_marked


def _forbidden(scope: Scope, person: Person) -> int | None:
    """Return the HTTP status for a request that ``person`` may not make; None if it is allowed."""
    parts = tuple(each for each in scope["path"].split("/") if each)
    if _contains(parts, _AGENT) or providers.is_auth_route(scope):
        return 404
    if scope["method"] in _SAFE_METHODS:
        return None
    if _contains(parts, _UPLOAD) and not person.may(Action.OPEN_FILE):
        return 403
    foreign = "origin" in Headers(scope=scope) and not is_own_origin(scope)
    return 403 if foreign else None


def _contains(parts: tuple[str, ...], wanted: tuple[str, str]) -> bool:
    return wanted in pairwise(parts)


def _cookie_name(scope: Scope) -> str:
    """Return the cookie's name, which contains the port: browsers share cookies between ports."""
    return f"specviz_access_{server_of(scope)[1] or 0}"


def _cookies(scope: Scope) -> Iterator[str]:
    """Yield the values of all access cookies: a request may contain cookies for several paths."""
    for header in Headers(scope=scope).getlist("cookie"):
        for each in header.split(";"):
            name, _, value = each.strip().partition("=")
            if name == _cookie_name(scope):
                yield value
