"""Requests from the gate to the application behind it: to Streamlit's login, for example."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope

from specviz.ui.access.answers import HEADERS
from specviz.ui.access.providers import cookie_headers, is_identity_cookie, location_of

_Answer = tuple[Message, bytes]


async def answer_of(app: ASGIApp, scope: Scope, receive: Receive) -> _Answer:
    """Call the application; return the start message and the content of its response."""
    messages: list[Message] = []

    async def collect(message: Message) -> None:
        messages.append(message)

    await app(scope, receive, collect)
    return messages[0], b"".join(each.get("body", b"") for each in messages[1:])


def forwarded(start: Message, *, secure: bool, into: Response | None = None) -> Response:
    """Return the application's redirect with its cookies.

    If ``into`` is given, return ``into`` with these cookies instead. Cookies that identify a person
    are left out: they stay on the server. Under https, all other cookies become secure.
    """
    response = into
    if response is None:
        response = Response(status_code=start["status"], headers=HEADERS)
        response.headers["Location"] = location_of(start)
    for name, text in cookie_headers(start):
        if not is_identity_cookie(name):
            marked = secure and "secure" not in text.lower().replace(" ", "").split(";")
            response.headers.append("set-cookie", f"{text}; Secure" if marked else text)
    return response
