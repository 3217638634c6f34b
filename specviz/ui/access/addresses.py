"""The addresses of an ASGI connection, and which of them only this machine can reach."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.types import Scope
from streamlit import config


@lru_cache(maxsize=64)  # needed at every request and by every page
def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address.

    For every host name except localhost, the result is False: the name may resolve to an address
    that others can reach.
    """
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def configured_address() -> str:
    return str(config.get_option("server.address") or "")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def in_url(host: str) -> str:
    host = str(_address(host) or host)
    return f"[{host}]" if ":" in host else host


def server_of(scope: Scope) -> tuple[str, int | None]:
    """Return the local host and port of a connection; for a Unix socket, its path and None."""
    host, port = scope.get("server") or ("", None)
    return str(host), port


def client_of(scope: Scope) -> str:
    """Return a client's key in ``Penalties``: its IPv4 address or its IPv6 network."""
    host = str((scope.get("client") or ("",))[0])[:64]
    address = _address(host.partition("%")[0])
    if isinstance(address, IPv6Address):  # a client may use any address of its /64 network
        return str(ip_network((address, 64), strict=False))
    return str(address or host)


def is_encrypted(scope: Scope) -> bool:
    return scope.get("scheme") in ("https", "wss")
