"""Requests that the gate makes of the application behind it, such as to Streamlit's login."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope

from specviz.ui.access.answers import HEADERS
from specviz.ui.access.providers import cookie_headers, is_identity_cookie, location_of

_Answer = tuple[Message, bytes]


async def answer_of(app: ASGIApp, scope: Scope, receive: Receive) -> _Answer:
    """Call the application, and return its response as its start message and its content."""
    messages: list[Message] = []

    async def collect(message: Message) -> None:
        messages.append(message)

    await app(scope, receive, collect)
    return messages[0], b"".join(each.get("body", b"") for each in messages[1:])


def forwarded(start: Message, *, secure: bool, into: Response | None = None) -> Response:
    """Return the application's redirect, or ``into`` with its cookies.

    The cookies that identify a person stay on the server. Under https, the others become secure.
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
