"""Access to a dashboard that others can reach: the token, its cookie, and the gate.

On a loopback address the dashboard is open. On any other address, or if ``SPECVIZ_TOKEN`` is set,
``TokenGate`` refuses each request that has neither a valid cookie nor a valid token. A link with
the token is exchanged for a cookie, so that the token does not stay in the address bar.

The gate encrypts nothing: without https, the token and the cookie cross the network in the clear.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from html import escape
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import parse_qsl, quote, unquote_plus

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import config, net_util
from streamlit.web.server.server_util import get_url

from specviz import ASSETS
from specviz.access.demo import is_demo
from specviz.errors import ConfigError

TOKEN = "SPECVIZ_TOKEN"
SHORTEST = 16  # least number of characters of a token
COOKIE_SECONDS = 7 * 24 * 3600
_CLOCK_SKEW = 300.0  # seconds; accepts a cookie after the clock was set back a little
_FIRST_PENALTY, _LONGEST_PENALTY = 0.5, 8.0  # seconds
_FORGOTTEN_AFTER = 300.0  # seconds since the last wrong token
_MOST_CLIENTS = 1000

_UNFIT = re.compile(r"[^A-Za-z0-9._~-]")  # characters that must be escaped in a link
_QUERY_SAFE = "%/:?@!$&'()*+,;=-._~"
_WILDCARDS = ("", "0.0.0.0", "::")
_MISSING = (
    "Open the link that was printed where specviz was started, or paste the token of that link."
)
_WRONG = "This token is wrong. Paste the token that was printed where specviz was started."
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
}


# Addresses


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address.

    For every host name except localhost, the result is False: the name may resolve to an address
    that others can reach.
    """
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def reachable_by_others() -> bool:
    """Return whether people other than the owner may reach the dashboard.

    If ``SPECVIZ_TOKEN`` is set, the result is True even on a loopback address, because a reverse
    proxy may forward requests from other people.
    """
    access = the_access()
    return access.chosen or access.reached or not is_loopback(_configured_address())


def _configured_address() -> str:
    return str(config.get_option("server.address") or "")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


# The token and its cookie


@dataclass(slots=True)
class Penalties:
    """How long each client must wait after wrong tokens; each doubles the delay, up to a limit."""

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


@dataclass(slots=True, kw_only=True)
class Access:
    """The access token of this server, and the state of the gate that checks it (``TokenGate``)."""

    token: str
    chosen: bool = False  # whether SPECVIZ_TOKEN set the token
    now: Callable[[], float] = time.time
    penalties: Penalties = field(default_factory=Penalties)
    reached: bool = False  # whether a connection has arrived at a network address
    guarded: bool = False  # whether the gate is in front of the pages
    announced: bool = False  # whether the link was printed

    def is_token(self, sent: str) -> bool:
        return hmac.compare_digest(sent.encode(errors="replace"), self.token.encode())

    def cookie(self) -> str:
        """Return a new cookie: the time of issue, signed with the access token."""
        issued = str(int(self.now()))
        return f"{issued}.{self._signature(issued)}"

    def is_cookie(self, value: str) -> bool:
        """Return whether the access token signed the cookie and the cookie has not expired."""
        issued, _, signature = value.partition(".")
        signed = self._signature(issued).encode()
        if not hmac.compare_digest(signature.encode(errors="replace"), signed):
            return False
        return -_CLOCK_SKEW <= self.now() - int(issued) < COOKIE_SECONDS

    def _signature(self, issued: str) -> str:
        message = b"specviz access cookie, issued " + issued.encode(errors="replace")
        return hmac.new(self.token.encode(), message, hashlib.sha256).hexdigest()


@cache
def the_access() -> Access:
    """Return this server's ``Access``. Raise ConfigError if ``SPECVIZ_TOKEN`` is invalid."""
    chosen = os.environ.get(TOKEN)
    if chosen is None:
        return Access(token=secrets.token_urlsafe(32))
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
    return Access(token=chosen, chosen=True)


def require_usable_token() -> None:
    """Exit with a one-line message if ``SPECVIZ_TOKEN`` is not a valid token."""
    try:
        the_access()
    except ConfigError as error:
        raise SystemExit(str(error)) from None


# The link


def announce_link() -> None:
    """Print the link with the token if others can reach the configured address.

    If the ASGI server is not Streamlit's own, Streamlit's options do not contain the address. The
    gate then prints the link when it refuses the first connection.
    """
    ours = str(getattr(config, "_server_mode", "")).startswith("starlette")
    access = the_access()
    if ours and reachable_by_others() and (access.chosen or not is_demo()):
        _announce(access, _own_link())


def _own_link() -> str:
    """Return the dashboard's address according to Streamlit's startup options."""
    host = _configured_address()
    if config.is_manually_set("browser.serverAddress"):
        host = str(config.get_option("browser.serverAddress"))
    elif host in _WILDCARDS:
        host = net_util.get_internal_ip() or "127.0.0.1"
    return f"{get_url(_in_url(host))}/"


def _in_url(host: str) -> str:
    host = str(_address(host) or host)
    return f"[{host}]" if ":" in host else host


def _announce(access: Access, url: str) -> None:
    access.announced = True
    lines = (
        "Open the dashboard with this link, which contains its access token:\n",
        f"  {url}?token={access.token}\n",
    )
    sys.stderr.writelines(lines)
    sys.stderr.flush()


# The gate


class TokenGate:
    """Middleware that checks the requests of guarded connections (see ``_guards``).

    The gate refuses a request with neither a valid cookie nor a valid token. The gate must be the
    first middleware: everything before it is open to everybody.
    """

    def __init__(self, app: ASGIApp, access: Access | None = None) -> None:
        self._app = app
        self._access = access or the_access()
        self._access.guarded = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or not self._guards(scope):
            await self._app(scope, receive, send)
            return
        # The server logs the scope's query, so the token is removed from the scope itself.
        sent, scope["query_string"] = _without_token(scope["query_string"])
        known = any(map(self._access.is_cookie, _cookies(scope)))
        answer = self._exchange(scope, sent, known) if _may_log_in(scope, sent) else None
        if answer is None and known:
            await self._app(scope, receive, send)
            return
        if answer is None or answer.status_code >= 400:
            self._announce_once(scope)
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # closed before accept: 403
        else:
            await (answer or _refusal(scope, 401, _MISSING))(scope, receive, send)

    def _guards(self, scope: Scope) -> bool:
        """Return whether this connection needs a cookie or token, and update ``Access.reached``.

        An ASGI server other than Streamlit's own ignores Streamlit's options, so it may use another
        address than these options name. This method therefore also checks the connection's local
        address.
        """
        outside = not is_loopback(_server_of(scope)[0])
        self._access.reached |= outside
        if is_demo():  # everybody may see it, unless a token was chosen
            return self._access.chosen
        return outside or self._access.chosen or not is_loopback(_configured_address())

    def _exchange(self, scope: Scope, sent: str, known: bool) -> Response:
        """Return the response to a token that a client sent.

        If the token is right, return a redirect that sets a cookie. If it is wrong, delay the
        client's next attempt and return a refusal. During the delay, refuse every token. A browser
        with a valid cookie (``known``) gets a redirect without a cookie instead of a refusal.
        """
        penalties, client = self._access.penalties, _client_of(scope)
        wait = penalties.remaining(client)
        if not wait:
            if self._access.is_token(sent):
                return _redirect(scope, self._access.cookie())
            penalties.add(client)
        if known:
            return _redirect(scope)
        if wait:
            seconds = math.ceil(wait)
            text = f"Too many wrong tokens. This page tries again in {seconds} s."
            return _refusal(scope, 429, text, retry=seconds)
        return _refusal(scope, 401, _WRONG)

    def _announce_once(self, scope: Scope) -> None:
        if not self._access.announced:
            # The Host header is not used: a stranger could set it to another site, and the owner
            # may follow the printed link.
            host, port = _server_of(scope)
            scheme = "https" if _is_encrypted(scope) else "http"
            place = _in_url(host) + ("" if port is None else f":{port}")
            _announce(self._access, f"{scheme}://{place}{scope.get('root_path', '')}/")


def _may_log_in(scope: Scope, sent: str) -> bool:
    return bool(sent) and scope["type"] == "http" and scope["method"] == "GET"


def _without_token(query: bytes) -> tuple[str, bytes]:
    """Return the first token in a query, and the query without tokens."""
    fields = [each.partition(b"=") for each in query.split(b"&")]
    sent = [value for name, _, value in fields if _is_token_name(name)]
    rest = b"&".join(b"".join(each) for each in fields if not _is_token_name(each[0]))
    pasted = unquote_plus(sent[0].decode("latin-1")).strip() if sent else ""
    return pasted.rpartition("token=")[2].partition("&")[0], rest  # a whole link may be pasted


def _is_token_name(name: bytes) -> bool:
    return unquote_plus(name.decode("latin-1")) == "token"


def _server_of(scope: Scope) -> tuple[str, int | None]:
    """Return the local host and port of a connection; for a Unix socket, its path and None."""
    host, port = scope.get("server") or ("", None)
    return str(host), port


def _client_of(scope: Scope) -> str:
    """Return a client's key in ``Penalties``: its IPv4 address or its IPv6 network."""
    host = str((scope.get("client") or ("",))[0])[:64]
    address = _address(host.partition("%")[0])
    if isinstance(address, IPv6Address):  # a client may use any address of its /64 network
        return str(ip_network((address, 64), strict=False))
    return str(address or host)


def _is_encrypted(scope: Scope) -> bool:
    return scope.get("scheme") in ("https", "wss")


def _cookie_name(scope: Scope) -> str:
    """Return the cookie's name, which contains the port: browsers share cookies between ports."""
    return f"specviz_access_{_server_of(scope)[1] or 0}"


def _cookies(scope: Scope) -> Iterator[str]:
    """Yield the values of all access cookies: a request may contain cookies for several paths."""
    for header in Headers(scope=scope).getlist("cookie"):
        for each in header.split(";"):
            name, _, value = each.strip().partition("=")
            if name == _cookie_name(scope):
                yield value


def _redirect(scope: Scope, cookie: str = "") -> Response:
    """Redirect the browser to the same address without the token.

    The location is relative. So a path such as ``//other.example/`` cannot name another host, and
    the redirect works behind a proxy that serves the dashboard under a subpath.
    """
    page = quote(scope["path"].rpartition("/")[2], errors="replace")
    query = quote(scope["query_string"].decode("latin-1"), safe=_QUERY_SAFE)
    response = Response(status_code=303, headers=_HEADERS)
    response.headers["Location"] = f"./{page}" + (f"?{query}" if query else "")
    if cookie:
        # With SameSite=strict, a link opened from a mail or from another site would lose the
        # cookie in this redirect.
        response.set_cookie(
            _cookie_name(scope), cookie, max_age=COOKIE_SECONDS, path="/", httponly=True,
            samesite="lax", secure=_is_encrypted(scope),
        )  # fmt: skip
    return response


def _refusal(scope: Scope, status: int, text: str, retry: int = 0) -> Response:
    headers = dict(_HEADERS)
    if retry:
        headers["Retry-After"] = str(retry)
    if "text/html" not in Headers(scope=scope).get("accept", ""):
        return PlainTextResponse(f"{text}\n", status, headers)
    if retry:
        headers["Refresh"] = str(retry)  # the browser sends the same token again
    return HTMLResponse(_page(scope, text), status, headers)


def _page(scope: Scope, text: str) -> str:
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    kept = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
        for name, value in query
    )
    page = (ASSETS / "access.html").read_text(encoding="utf-8")
    return page.replace("<!-- message -->", escape(text)).replace("<!-- kept -->", kept)
