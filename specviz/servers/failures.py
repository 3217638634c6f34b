"""Failures between the dashboard and an engine, as errors with a culprit and a remedy.

The key is removed from an engine's words after they are decoded and before they are cut.
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
_LOOK = "Look into its log."
_ELSEWHERE = "Check that the address is that of a serving engine."
_DEEPEST = 8  # objects and encoded strings one within the other


def broken(address: str, what: str) -> ServerError:
    """Describe an engine that does not follow the protocol."""
    return ServerError(f"{address} {what}.", remedy=_ELSEWHERE)


def refused(address: str, said: Any, remover: KeyRemover) -> ServerError:
    """Describe an engine that understood the request and reports an error."""
    return ServerError(f"{address} answers: {message_of(said, remover)}", remedy=_LOOK)


def unreadable(address: str, error: Exception) -> ServerError:
    """Describe an answer that broke its reader."""
    return ServerError(
        f"{address} sends an answer that cannot be read ({type(error).__name__}).",
        remedy=_ELSEWHERE,
    )


def other_engine(error: ServerError, title: str) -> ServerError:
    """Describe an address without a page which the engine recognised there always has."""
    return ServerError(
        f"{error.culprit.rstrip('.')}, although {title} was recognised there: several engines may "
        "share this address.",
        remedy="Give the address of a single engine.",
    )


def answered(
    address: str,
    response: httpx2.Response,
    said: str,
    remover: KeyRemover,
    key_problem: tuple[str, str],
) -> ServerError:
    """Describe a status that is no success. ``key_problem``: what to say of a refused key."""
    status = response.status_code
    if response.is_redirect or 300 <= status < 400:
        return ServerError(
            f"{address} redirects to {_place(response.headers.get('location', ''), remover)}, "
            "which is not followed.",
            remedy="Give that address itself if you trust it.",
        )
    if status in (401, 403):
        what, remedy = key_problem
        return ServerError(
            f"{address} answers {status}: it {what}".rstrip(".") + ".", remedy=remedy
        )
    return ServerError(
        f"{address} answers {status}: {message_of(said, remover)}".rstrip(": "), remedy=_LOOK
    )


def unreachable(
    address: str, error: Exception | None, connect: float, between: float, remover: KeyRemover
) -> ServerError:
    if failure := _of_encryption(error):
        return ServerError(
            f"{address} cannot be trusted: {failure}.",
            remedy="Give its certificate to this machine, or check that it speaks https.",
        )
    if isinstance(error, httpx2.ConnectTimeout):
        return _not_reached(address, f"nothing answers within {connect:g} s")
    if isinstance(error, httpx2.TimeoutException):
        return broken(address, f"has sent nothing for {between:g} s")
    if isinstance(error, httpx2.ConnectError):
        return _not_reached(address, _reason(error, remover))
    if isinstance(error, httpx2.ProtocolError):
        return broken(address, f"broke off or does not speak HTTP ({_reason(error, remover)})")
    return broken(address, f"broke off ({_reason(error, remover)})")


def message_of(said: Any, remover: KeyRemover) -> str:
    """Return the words of an engine's error in one line, whichever of the usual shapes it has."""
    return _one_line(remover.from_error(_words(said, remover, _DEEPEST)))


def _words(said: Any, remover: KeyRemover, depth: int) -> str:
    if isinstance(said, str):
        try:
            return _words(decoded(said, remover), remover, depth - 1) if depth else said
        except ValueError:
            return said
    if isinstance(said, dict):
        for name in ("error", "message", "detail"):
            if said.get(name):
                return _words(said[name], remover, depth - 1) if depth else ""
    return json.dumps(said, ensure_ascii=False) if said else ""


def _not_reached(address: str, why: str) -> ServerError:
    return ServerError(
        f"{address} cannot be reached: {why}.", remedy="Start the engine, or correct the address."
    )


def _of_encryption(error: BaseException | None) -> str | None:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message.rstrip(".").lower()
        if isinstance(error, ssl.SSLError):
            return (error.reason or "no encryption could be agreed on").replace("_", " ").lower()
        error = error.__cause__ or error.__context__
    return None


def _reason(error: BaseException | None, remover: KeyRemover) -> str:
    said = _NUMBER.sub("", _one_line(remover.from_error(str(error)))).rstrip(".")
    return said[:1].lower() + said[1:] or type(error).__name__


def _place(location: str, remover: KeyRemover) -> str:
    """Return where a redirect leads, without the parts that may be secret."""
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
