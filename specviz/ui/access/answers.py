"""What the gate answers itself: redirects, and the page with the token box and login buttons."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qsl, quote, unquote_plus, urlencode

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Scope

from specviz import ASSETS
from specviz.ui.access.addresses import is_encrypted
from specviz.ui.access.providers import title_of

TOKEN_FIELD, LOGIN_FIELD, LOGOUT_FIELD = "token", "login", "logout"  # query parameters
_OWN_FIELDS = (TOKEN_FIELD, LOGIN_FIELD, LOGOUT_FIELD)
_QUERY_SAFE = "%/:?@!$&'()*+,;=-._~"
MISSING = (
    "Open the link that was printed where specviz was started, or paste the token of that link."
)
WRONG = "This token is wrong. Paste the token that was printed where specviz was started."
LOG_IN = "Log in to open the dashboard."
LOGGED_OUT = "You are logged out."
NOT_LISTED = "This account may not open the dashboard. Ask its owner to add your e-mail address."
NOT_VERIFIED = (
    "The login provider has not verified this account's e-mail address. Verify it, then log in."
)
LOGIN_FAILED = "The login did not succeed. Log in again."
LOGIN_OVER = "This login was used already or took too long. Log in again."
UNREACHABLE = "The login provider does not answer. Try again in a minute."
BUSY = "Too many logins are in progress. Try again in a minute."
_ORDINARY = (MISSING, LOG_IN, LOGGED_OUT)  # the other messages are errors
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
}


def take_fields(scope: Scope) -> dict[str, str]:
    """Remove the gate's own parameters from the query, and return the first value of each.

    The server logs the scope's query, so the parameters are removed from the scope itself.
    """
    parts = [each.partition(b"=") for each in scope["query_string"].split(b"&")]
    names = [unquote_plus(name.decode("latin-1")) for name, _, _ in parts]
    taken: dict[str, str] = {}
    for name, (_, _, value) in zip(names, parts, strict=True):
        if name in _OWN_FIELDS:
            taken.setdefault(name, unquote_plus(value.decode("latin-1")).strip())
    kept = [
        b"".join(part) for name, part in zip(names, parts, strict=True) if name not in _OWN_FIELDS
    ]
    scope["query_string"] = b"&".join(kept)
    if TOKEN_FIELD in taken:  # a whole link may be pasted
        taken[TOKEN_FIELD] = taken[TOKEN_FIELD].rpartition("token=")[2].partition("&")[0]
    return taken


def place_of(scope: Scope) -> str:
    """Return the address of the requested page, relative to the dashboard.

    A relative address such as ``./tune?gamma=3`` cannot name another host, even if the path is
    ``//other.example/``, and it works behind a proxy that serves the dashboard under a subpath.
    """
    page = quote(scope["path"].rpartition("/")[2], errors="replace")
    query = quote(scope["query_string"].decode("latin-1"), safe=_QUERY_SAFE)
    return f"./{page}" + (f"?{query}" if query else "")


def redirect(place: str) -> Response:
    """Redirect the browser to an address that ``place_of`` returned."""
    response = Response(status_code=303, headers=HEADERS)
    response.headers["Location"] = place
    return response


def put_cookie(response: Response, scope: Scope, name: str, value: str, seconds: float) -> None:
    # With SameSite=strict, a link opened from a mail or from another site would lose the
    # cookie in this redirect.
    response.set_cookie(
        name, value, max_age=int(seconds), path="/", httponly=True, samesite="lax",
        secure=is_encrypted(scope),
    )  # fmt: skip


def refusal(
    scope: Scope, status: int, text: str, *, providers: tuple[str, ...] = (), retry: int = 0
) -> Response:
    """Return a refusal: a page for browsers, one line for other clients."""
    headers = dict(HEADERS)
    if retry:
        headers["Retry-After"] = str(retry)
    if "text/html" not in Headers(scope=scope).get("accept", ""):
        return PlainTextResponse(f"{text}\n", status, headers)
    if retry:
        headers["Refresh"] = str(retry)  # the browser sends the same token again
    return HTMLResponse(_page(scope, text, providers), status, headers)


def _page(scope: Scope, text: str, providers: tuple[str, ...]) -> str:
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    kept = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
        for name, value in query
    )
    buttons = "".join(_button(query, each) for each in providers)
    role = "" if text in _ORDINARY else ' role="alert"'
    words = escape(text).replace("e-mail", "e\N{NON-BREAKING HYPHEN}mail")
    title = "Log in to specviz" if providers else "specviz needs an access token"
    page = (ASSETS / "access.html").read_text(encoding="utf-8")
    if providers:
        page = page.replace(" autofocus", "")  # it would pass over the buttons
    for name, value in {
        "title": title, "message": f"<p{role}>{words}</p>", "kept": kept,
        "providers": f'<div class="providers">{buttons}</div>' if buttons else "",
    }.items():  # fmt: skip
        page = page.replace(f"<!-- {name} -->", value)
    return page


def _button(query: list[tuple[str, str]], provider: str) -> str:
    """Return a link that begins a login.

    The page's policy would forbid a form here, because the login leads on to another host.
    """
    link = urlencode([*query, (LOGIN_FIELD, provider)])
    name = title_of(provider)
    words = f"Log in with {escape(name)}" if name else "Log in"
    return f'<a href="?{escape(link)}">{words}</a>'
