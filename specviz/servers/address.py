"""Addresses of serving engines, and their bearer keys.

Keys are read only from environment variables. An address that contains a key is refused, because
the key would be copied into traces, links and errors. The variable ``SPECVIZ_SERVER_KEY_FOR`` lists
the addresses that may receive the key.
"""

from __future__ import annotations

import os
import re
from ipaddress import ip_address
from typing import Literal
from urllib.parse import SplitResult, unquote, urlsplit

from specviz.errors import ServerError

KeyName = Literal["SPECVIZ_SERVER_KEY", "SPECVIZ_BASELINE_KEY", "SPECVIZ_DRAFT_KEY"]
SERVER_KEY: KeyName = "SPECVIZ_SERVER_KEY"
BASELINE_KEY: KeyName = "SPECVIZ_BASELINE_KEY"
DRAFT_KEY: KeyName = "SPECVIZ_DRAFT_KEY"
_LONGEST = 500
_HOST = re.compile(r"(?:\*\.)?[\w.-]+|[\da-f:.]+(%\w+)?", re.ASCII)


def is_local(address: str) -> bool:
    """Return whether the address is this machine: localhost, a loopback address or 0.0.0.0."""
    host = _parts(address).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        number = ip_address(host)
    except ValueError:
        return False
    return number.is_loopback or number.is_unspecified


def checked_address(address: str, *, allow_remote: bool) -> str:
    """Return the normalized address: with its scheme, without a final slash or ``/v1``."""
    parts = _parts(address)
    if not allow_remote and not is_local(address):
        clear = "" if parts.scheme == "https" else ", unencrypted"
        raise ServerError(
            f"{parts.netloc} is another machine; prompts would be sent there{clear}.",
            remedy="Allow it explicitly, for example with --allow-remote.",
        )
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def key_for(name: KeyName, address: str) -> str | None:
    """Return the bearer key in this environment variable if it is bound to this address."""
    if (key := _key(name)) is None:
        return None
    for place, each in enumerate(_bound_to(name), start=1):
        _check_entry(name, place, each)
    return key if any(_matches(each, address) for each in _bound_to(name)) else None


def withheld_key(name: KeyName, address: str) -> str:
    """Return why the key is not sent to this address.

    Return "" if the key is sent, or if no key is set.
    """
    if _key(name) is None or key_for(name, address) is not None:
        return ""
    where = _parts(address).netloc
    if not _bound_to(name):
        return f"No key is sent to {where}: {name}_FOR lists no address for {name}."
    return f"No key is sent to {where}: {name}_FOR lists only other addresses for {name}."


def _key(name: KeyName) -> str | None:
    key = os.environ.get(name, "").strip()
    if not key.isascii() or any(not " " < each <= "~" for each in key):
        raise ServerError(
            f"The key in {name} contains characters that are not allowed in an HTTP header.",
            remedy="Set the key again, without line breaks or spaces.",
        )
    return key or None


def _bound_to(name: KeyName) -> list[str]:
    return [each.strip() for each in os.environ.get(f"{name}_FOR", "").split(",") if each.strip()]


def _check_entry(name: KeyName, place: int, entry: str) -> None:
    try:
        _parts(entry)
    except ServerError:
        raise ServerError(  # the entry is not quoted, because it may contain a key
            f"Entry {place} of {name}_FOR is not an address.",
            remedy="Give addresses, HOST, HOST:PORT or *.DOMAIN, separated by commas.",
        ) from None


def _matches(pattern: str, address: str) -> bool:
    """Return whether the address matches one entry of ``…_KEY_FOR``.

    An entry is an address with a scheme, or HOST, HOST:PORT or ``*.DOMAIN``. If the entry has
    a scheme, its scheme, host and port must equal those of the address, and its path must be a
    prefix of the address's path. An entry without a scheme matches https; it matches http only on
    this machine, so that no key is sent unencrypted over a network.
    """
    theirs, ours = _parts(address), _parts(pattern)
    if "://" in pattern:
        return _place(ours) == _place(theirs) and _is_below(theirs.path, ours.path)
    if theirs.scheme != "https" and not is_local(address):
        return False
    if ours.port is not None and ours.port != _place(theirs)[2]:
        return False
    host, their_host = ours.hostname or "", theirs.hostname or ""
    return their_host.endswith(host[1:]) if host.startswith("*.") else their_host == host


def _place(parts: SplitResult) -> tuple[str, str | None, int]:
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _is_below(path: str, above: str) -> bool:
    above = above.rstrip("/").removesuffix("/v1").rstrip("/")
    return path.rstrip("/") == above or path.startswith(f"{above}/")


def _parts(address: str) -> SplitResult:
    text = address.strip()
    if "://" not in text:
        text = f"http://{text}"
    parts = _split(text)
    if parts.username is not None or parts.password is not None:
        raise _contains_secret("a name or password before the @")
    if parts.query or parts.fragment:
        raise _contains_secret("a query or fragment, which often contains a key")
    if not _usable(text, parts):
        raise ServerError(
            f"{text!r} is not an engine address.", remedy="Give one like http://127.0.0.1:8000."
        )
    return parts


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises if it is not a number
    except ValueError:
        raise ServerError(
            "The given text is not an engine address.",
            remedy="Give one like http://127.0.0.1:8000.",
        ) from None
    return parts


def _usable(text: str, parts: SplitResult) -> bool:
    plain = len(text) <= _LONGEST and all("!" <= each <= "~" for each in text)
    named = parts.scheme in ("http", "https") and _HOST.fullmatch(parts.hostname or "") is not None
    return plain and named and not _climbs(parts.path)


def _climbs(path: str) -> bool:
    """Return whether the path has dot segments (``.`` or ``..``).

    Dot segments could lead out of the path to which a key is bound.
    """
    plain = unquote(unquote(path)).replace("\\", "/")
    return any(each in (".", "..") for each in plain.split("/"))


def _contains_secret(what: str) -> ServerError:
    return ServerError(
        f"The address contains {what}. This would be stored and shown with every run.",
        remedy=f"Remove this part; set the key in the environment variable {SERVER_KEY}.",
    )
