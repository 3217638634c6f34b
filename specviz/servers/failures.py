"""What can go wrong between us and an engine, as errors that name the culprit and the remedy."""

from __future__ import annotations

import json
import re
import ssl
from typing import Any
from urllib.parse import urlsplit

import httpx2

from specviz.errors import ServerError
from specviz.servers.address import KeyName

_NUMBER = re.compile(r"^\[(Errno )?[^\]]*\] ")
_LOOK = "Look into its log."
_ELSEWHERE = "Check that the address is that of a serving engine."


def broken(address: str, what: str) -> ServerError:
    """An engine that does not answer as one does."""
    return ServerError(f"{address} {what}.", remedy=_ELSEWHERE)


def refused(address: str, said: str) -> ServerError:
    """An engine that understood, and will not or cannot."""
    return ServerError(f"{address} answers: {_one_line(said)}", remedy=_LOOK)


def answered(
    address: str, response: httpx2.Response, said: str, known: tuple[KeyName, bool]
) -> ServerError:
    """A status that is no success. ``known``: where its key is read, and whether there is one."""
    status = response.status_code
    if response.is_redirect or 300 <= status < 400:
        return ServerError(
            f"{address} sends us on to {_place(response.headers.get('location', ''))}, which is "
            "not followed.",
            remedy="Give that address itself if you trust it.",
        )
    if status in (401, 403):
        name, given = known
        what = f"refuses the key in {name}" if given else "asks for a key"
        return ServerError(f"{address} {what} ({status}).", remedy=f"Set {name} to a right one.")
    return ServerError(
        f"{address} answers {status}: {_one_line(message_of(said))}".rstrip(": "), remedy=_LOOK
    )


def unreachable(
    address: str, error: Exception | None, connect: float, between: float
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
        return _not_reached(address, _reason(error))
    if isinstance(error, httpx2.ProtocolError):
        return broken(address, f"broke off or does not speak HTTP ({_reason(error)})")
    return broken(address, f"broke off ({_reason(error)})")


def message_of(said: Any) -> str:
    """The words of an engine's error, whichever of the usual shapes it has."""
    if isinstance(said, str):
        try:
            return message_of(json.loads(said))
        except (ValueError, RecursionError):
            return said
    if isinstance(said, dict):
        for name in ("error", "message", "detail"):
            if said.get(name):
                return message_of(said[name])
    return json.dumps(said)


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


def _reason(error: BaseException | None) -> str:
    said = _NUMBER.sub("", _one_line(str(error))).rstrip(".")
    return said[:1].lower() + said[1:] or type(error).__name__


def _place(location: str) -> str:
    """Without what may be secret in it."""
    try:
        parts = urlsplit(location)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "another place"
    scheme = f"{parts.scheme}://" if parts.scheme else ""
    return _one_line(f"{scheme}{host}{port}{parts.path}")[:200] or "another place"


def _one_line(text: str) -> str:
    return " ".join(text.split())
