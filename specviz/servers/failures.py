"""Failures of an engine or its connection, as errors that state what is wrong and the remedy.

The key is removed from an engine's message after the message is decoded and before it is truncated.
"""

from __future__ import annotations

import json
import re
import ssl
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2

from specviz.errors import ServerError
from specviz.servers.foreign_json import KeyRemover, decoded

_NUMBER = re.compile(r"^\[(Errno )?[^\]]*\] ")
_CHECK_LOG = "Check the engine's log."
_CHECK_ADDRESS = "Check that a serving engine runs at this address."
_DEEPEST = 8  # levels of nested objects and of JSON encoded in strings


def broken(address: str, what: str) -> ServerError:
    """Return the error for an engine that does not follow the protocol."""
    return ServerError(f"{address} {what}.", remedy=_CHECK_ADDRESS)


def refused(address: str, body: Any, remover: KeyRemover) -> ServerError:
    """Return the error for an engine that understood the request and reports an error."""
    return ServerError(f"{address} answers: {message_of(body, remover)}", remedy=_CHECK_LOG)


def unreadable(address: str, error: Exception) -> ServerError:
    """Return the error for an answer that the adapter failed to read."""
    return ServerError(
        f"{address} sends an answer that cannot be read ({type(error).__name__}).",
        remedy=_CHECK_ADDRESS,
    )


def other_engine(error: ServerError, title: str) -> ServerError:
    """Return the error for an address without a page that the recognised engine always has.

    The page may be missing because several engines answer at this address.
    """
    return ServerError(
        f"{error.culprit.rstrip('.')}, although {title} was recognised there. Several engines may "
        "share this address.",
        remedy="Give the address of a single engine.",
    )


def answered(
    address: str,
    response: httpx2.Response,
    body: str,
    remover: KeyRemover,
    key_problem: tuple[str, str],
) -> ServerError:
    """Return the error for an HTTP error status.

    ``key_problem``: what is wrong, and the remedy, in case the engine refused the key.
    """
    status = response.status_code
    if response.is_redirect or 300 <= status < 400:
        return ServerError(
            f"{address} redirects to {_place(response.headers.get('location', ''), remover)}, "
            "which is not followed.",
            remedy="Give that address directly if you trust it.",
        )
    if status in (401, 403):
        what, remedy = key_problem
        return ServerError(
            f"{address} answers {status}: it {what}".rstrip(".") + ".", remedy=remedy
        )
    return ServerError(
        f"{address} answers {status}: {message_of(body, remover)}".rstrip(": "), remedy=_CHECK_LOG
    )


def unreachable(
    address: str, error: Exception | None, connect: float, between: float, remover: KeyRemover
) -> ServerError:
    if failure := _encryption_failure(error):
        return ServerError(
            f"{address} cannot be trusted: {failure}.",
            remedy="Install its certificate on this machine, or check that it serves https.",
        )
    if isinstance(error, httpx2.ConnectTimeout):
        return _not_reached(address, f"no answer within {connect:g} s")
    if isinstance(error, httpx2.TimeoutException):
        return broken(address, f"has sent nothing for {between:g} s")
    if isinstance(error, httpx2.ConnectError):
        return _not_reached(address, _reason(error, remover))
    if isinstance(error, httpx2.ProtocolError):
        return broken(address, f"broke off or does not speak HTTP ({_reason(error, remover)})")
    return broken(address, f"broke off ({_reason(error, remover)})")


def message_of(body: Any, remover: KeyRemover) -> str:
    """Return the message of an engine's error on one line, from any of the usual formats."""
    return _one_line(remover.from_error(_message(body, remover, _DEEPEST)))


def _message(body: Any, remover: KeyRemover, depth: int) -> str:
    if isinstance(body, str):
        try:
            return _message(decoded(body, remover), remover, depth - 1) if depth else body
        except ValueError:
            return body
    if isinstance(body, dict):
        for name in ("error", "message", "detail"):
            if body.get(name):
                return _message(body[name], remover, depth - 1) if depth else ""
    return json.dumps(body, ensure_ascii=False) if body else ""


def _not_reached(address: str, why: str) -> ServerError:
    return ServerError(
        f"{address} cannot be reached: {why}.", remedy="Start the engine, or correct the address."
    )


def _encryption_failure(error: BaseException | None) -> str | None:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message.rstrip(".").lower()
        if isinstance(error, ssl.SSLError):
            return (error.reason or "no encryption could be agreed on").replace("_", " ").lower()
        error = error.__cause__ or error.__context__
    return None


def _reason(error: BaseException | None, remover: KeyRemover) -> str:
    text = _NUMBER.sub("", _one_line(remover.from_error(str(error)))).rstrip(".")
    return text[:1].lower() + text[1:] or type(error).__name__


def _place(location: str, remover: KeyRemover) -> str:
    """Return the address to which a redirect leads, without parts that may be secret."""
    try:
        parts = urlsplit(location)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "another place"
    scheme = f"{parts.scheme}://" if parts.scheme else ""
    place = unquote(f"{scheme}{host}{port}{parts.path}")
    return _one_line(remover.from_error(place))[:200] or "another place"


def _one_line(text: str) -> str:
    return " ".join(text.split())
