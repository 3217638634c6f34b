"""Where requests to serving engines may go: the rules, and the transport that enforces them.

Without rules (the command line), requests go to any address. The dashboard sets rules for its whole
process with ``the_outgoing().rules = …``. With rules, a request is sent only to a checked IP
address: the transport resolves the host once, checks every address that it finds, and connects to
one of these addresses. This prevents DNS rebinding, in which a name resolves to another address a
moment later. The Host header and the check of the certificate still use the host's name.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import httpx2

from specviz.access.addresses import (
    Address,
    ListedAddress,
    default_port,
    host_name,
    is_metadata,
    is_metadata_name,
    is_special,
    literal_address,
)
from specviz.errors import ServerError
from specviz.values import Value

_MOST_TRIED = 4  # addresses of one host


class Rules(Value):
    """The addresses that may be contacted.

    If ``only_listed``, an address must be in ``listed``. If a listed name resolves to a special
    address (see ``access.addresses``), the special address must be listed, too. Metadata addresses
    of clouds are always refused.
    """

    listed: tuple[ListedAddress, ...] = ()
    only_listed: bool = False

    def check(self, address: str) -> None:
        """Raise ServerError if the address, as typed, must not be contacted. Resolve no name."""
        parts = urlsplit(address)
        self.check_host(
            parts.scheme, parts.hostname or "", parts.port or default_port(parts.scheme)
        )

    def check_host(self, scheme: str, host: str, port: int) -> None:
        if self.only_listed and not any(e.covers_host(scheme, host, port) for e in self.listed):
            raise ServerError(
                f"The owner of this dashboard has not listed {_place(host, port)}, so nothing is "
                "sent there.",
                remedy="The owner can add it to addresses under [servers] in the settings file.",
            )
        literal = literal_address(host)
        if is_metadata_name(host) or (literal is not None and is_metadata(literal)):
            raise _metadata(host, port)

    def check_resolved(self, scheme: str, host: str, port: int, address: Address) -> None:
        """Raise ServerError if a host that passed ``check_host`` resolved to a refused address."""
        if is_metadata(address):
            raise _metadata(host, port)
        if not self.only_listed or not is_special(address):
            return
        if not any(each.covers_address(scheme, address, port) for each in self.listed):
            raise ServerError(
                f"{_place(host, port)} resolves to an address of a private or reserved network "
                "that the owner has not listed, so nothing is sent there.",
                remedy="The owner can add the IP address to addresses under [servers] in the "
                "settings file.",
            )


@dataclass(slots=True)
class Outgoing:
    """The rules of this process.

    ``rules`` returns the rules in force. If ``rules`` is None, every address is allowed.
    """

    rules: Callable[[], Rules] | None = None

    def now(self) -> Rules | None:
        return self.rules() if self.rules is not None else None


@cache
def the_outgoing() -> Outgoing:
    return Outgoing()


def check_outgoing(address: str) -> None:
    """Raise ServerError if this process's rules refuse the address, as typed."""
    if (rules := the_outgoing().now()) is not None:
        rules.check(address)


def transport_for(address: str) -> httpx2.BaseTransport:
    """Return the transport for requests to an engine at this address."""
    options: dict[str, Any] = {
        "verify": address.startswith("https:"),  # saves 0.1 s for http
        "trust_env": False,
    }
    rules = the_outgoing().now()
    return httpx2.HTTPTransport(**options) if rules is None else PinnedTransport(rules, **options)


class PinnedTransport(httpx2.HTTPTransport):
    """A transport that connects only to IP addresses that the rules allow."""

    def __init__(self, rules: Rules, **options: Any) -> None:
        super().__init__(**options)
        self._rules = rules

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        problem: Exception | None = None
        for address in self._addresses(request.url):
            try:
                return super().handle_request(_pinned(request, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                problem = error
        raise problem or httpx2.ConnectError("the host has no address")

    def _addresses(self, url: httpx2.URL) -> list[Address]:
        """Return the host's addresses; raise ServerError if any of them is refused."""
        scheme, host = url.scheme, url.raw_host.decode("ascii")
        port = url.port or default_port(scheme)
        self._rules.check_host(scheme, host, port)
        found = list(dict.fromkeys(_resolved(host, port)))
        for address in found:
            self._rules.check_resolved(scheme, host, port, address)
        return found[:_MOST_TRIED]


def _resolved(host: str, port: int) -> Iterator[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx2.ConnectError(str(error)) from None
    for *_, place in found:
        yield ip_address(str(place[0]).partition("%")[0])


def _pinned(request: httpx2.Request, address: Address) -> httpx2.Request:
    """Return the request with the IP address in its URL, but with an unchanged Host header."""
    host = host_name(request.url.raw_host.decode("ascii"))
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": host},
    )


def _metadata(host: str, port: int) -> ServerError:
    return ServerError(
        f"{_place(host, port)} is a metadata address of a cloud, to which nothing is sent.",
        remedy="Give the address of a serving engine.",
    )


def _place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
