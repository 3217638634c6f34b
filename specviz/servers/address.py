"""Addresses of serving engines, and the keys to them.

A key comes from the environment alone: an address that holds one would carry it into traces,
links and errors, and is refused.
"""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from specviz.errors import ServerError

KeyName = Literal["SPECVIZ_SERVER_KEY", "SPECVIZ_BASELINE_KEY", "SPECVIZ_DRAFT_KEY"]
SERVER_KEY: KeyName = "SPECVIZ_SERVER_KEY"
BASELINE_KEY: KeyName = "SPECVIZ_BASELINE_KEY"
DRAFT_KEY: KeyName = "SPECVIZ_DRAFT_KEY"
_LONGEST = 500


def is_local(address: str) -> bool:
    """Whether the address names this machine, as its own loopback."""
    host = _parts(address).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        number = ip_address(host)
    except ValueError:
        return False
    return number.is_loopback or number.is_unspecified


def checked_address(address: str, *, allow_remote: bool) -> str:
    """As it is used and kept: with its scheme, without a slash or ``/v1`` at its end."""
    parts = _parts(address)
    if not allow_remote and not is_local(address):
        readers = "" if parts.scheme == "https" else ", in the clear for all on the way"
        raise ServerError(
            f"{parts.netloc} is another machine, and prompts would go there{readers}.",
            remedy="Allow it expressly, as with --allow-remote.",
        )
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def key_of(name: KeyName) -> str | None:
    """The bearer key in this variable of the environment; None without one."""
    key = os.environ.get(name, "").strip()
    if not key.isascii() or any(not " " < each <= "~" for each in key):
        raise ServerError(
            f"The key in {name} holds characters that no HTTP header can.",
            remedy="Set it anew, without line breaks or spaces.",
        )
    return key or None


def _parts(address: str) -> SplitResult:
    text = address.strip()
    if "://" not in text:
        text = f"http://{text}"
    parts = _split(text)
    if parts.username is not None or parts.password is not None:
        raise _holds_a_secret("a name or password before its @")
    if parts.query or parts.fragment:
        raise _holds_a_secret("something after its path, as keys are given")
    if not _usable(text, parts):
        raise ServerError(
            f"{text!r} is no address of an engine.", remedy="Give one like http://127.0.0.1:8000."
        )
    return parts


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises where it is no number
    except ValueError:
        raise ServerError(
            "What was given is no address of an engine.",
            remedy="Give one like http://127.0.0.1:8000.",
        ) from None
    return parts


def _usable(text: str, parts: SplitResult) -> bool:
    plain = len(text) <= _LONGEST and all("!" <= each <= "~" for each in text)
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname)


def _holds_a_secret(what: str) -> ServerError:
    return ServerError(
        f"The address holds {what}: it would be kept and shown with every run.",
        remedy=f"Leave it out; a key is read from {SERVER_KEY} in the environment.",
    )
