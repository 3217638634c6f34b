"""IP addresses that a request may reach, and the addresses that the owner lists. No DNS here.

``special`` addresses are those of this machine, of private networks and of other reserved ranges.
``is_metadata`` finds the addresses at which clouds give credentials to any program that asks. Both
also look at the IPv4 address inside an IPv6 address.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import urlsplit

from specviz.values import Value

Address = IPv4Address | IPv6Address
_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?", re.ASCII)
_OLD_FORM = re.compile(r"[0-9a-fx.]+", re.ASCII)  # such as 127.1, 0x7f.1 or 2130706433
_METADATA = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",  # most clouds
            "169.254.170.2", "169.254.170.23", "169.254.169.253",  # AWS: containers, DNS
            "fd00:ec2::254", "fd00:ec2::23", "fd00:ec2::253",
            "fd20:ce::254",  # Google
            "100.100.100.200",  # Alibaba
            "192.0.0.192",  # Oracle
            "168.63.129.16",  # Azure
        ),
    )
)  # fmt: skip
_METADATA_NAMES = ("metadata", "metadata.google.internal", "metadata.goog", "instance-data",
                   "instance-data.ec2.internal", "metadata.azure.internal")  # fmt: skip
_TRANSLATED = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"), ip_network("::/96"))
# Not global either, whatever the Python version's tables say.
_RESERVED = tuple(
    map(
        ip_network,
        ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", "fec0::/10",
         "64:ff9b:1::/48", "2001::/23", "100::/64"),
    )
)  # fmt: skip


def host_name(host: str) -> str:
    """Return a host in its usual form: lower case, without brackets and without a final dot."""
    return host.strip("[]").lower().removesuffix(".")


def literal_address(host: str) -> Address | None:
    """Return the address that a host spells out, also in the old forms of IPv4; None for a name."""
    plain = host_name(host).partition("%")[0]
    try:
        return ip_address(plain)
    except ValueError:
        pass
    if not _OLD_FORM.fullmatch(plain) or not any(each.isdigit() for each in plain):
        return None
    try:
        return IPv4Address(socket.inet_aton(plain))
    except OSError:
        return None


def meanings(address: Address) -> Iterator[Address]:
    """Yield the address and every IPv4 address inside it to which a gateway may forward."""
    yield address
    if isinstance(address, IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if any(address in each for each in _TRANSLATED):
        yield IPv4Address(address.packed[-4:])


def plain_address(address: Address) -> Address:
    """Return the IPv4 address of an IPv4-mapped IPv6 address; any other address as it is."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_metadata(address: Address) -> bool:
    return any(each in _METADATA for each in meanings(address))


def is_metadata_name(host: str) -> bool:
    name = host_name(host)
    return name in _METADATA_NAMES or name.endswith(".metadata.google.internal")


def is_special(address: Address) -> bool:
    """Return whether an address is not an ordinary address of the Internet."""
    return any(
        not each.is_global or each.is_multicast or any(each in net for net in _RESERVED)
        for each in meanings(address)
    )


class ListedAddress(Value):
    """An entry of the owner's list: which addresses the page Servers may contact.

    ``host`` is a name or ``*.DOMAIN``. If ``host`` is empty, ``network`` contains the addresses. An
    empty scheme allows every scheme, and a missing port allows every port.
    """

    text: str  # as the owner wrote it
    scheme: str
    host: str
    network: IPv4Network | IPv6Network | None
    port: int | None

    def covers_host(self, scheme: str, host: str, port: int) -> bool:
        """Return whether the entry covers a typed address. The host's name is not resolved."""
        if not self._covers_place(scheme, port):
            return False
        literal = literal_address(host)
        if literal is not None:
            return self._contains(literal)
        name = host_name(host)
        if self.host.startswith("*."):
            return name.endswith(self.host[1:])
        return bool(self.host) and name == self.host

    def covers_address(self, scheme: str, address: Address, port: int) -> bool:
        """Return whether the entry allows a special address to which a listed name resolved."""
        if not self._covers_place(scheme, port):
            return False
        return self._contains(address) or (
            self.host == "localhost" and plain_address(address).is_loopback
        )

    def _covers_place(self, scheme: str, port: int) -> bool:
        return self.scheme in ("", scheme) and self.port in (None, port)

    def _contains(self, address: Address) -> bool:
        return self.network is not None and plain_address(address) in self.network


def parse_listed(text: str) -> ListedAddress:
    """Return an entry of the list; raise ValueError with the reason if it is not valid."""
    scheme, place = _without_scheme(text)
    network = _network(place)
    if network is not None and not scheme:
        host, port = "", None
    else:
        host, port = _host_and_port(place)
        address = literal_address(host)
        if address is None and not _NAME.fullmatch(host):
            raise ValueError("it is not HOST, HOST:PORT, NETWORK/BITS or a URL")
        network = None if address is None else ip_network(plain_address(address))
        host = host if address is None else ""
    _refuse_metadata(host, network)
    return ListedAddress(text=text, scheme=scheme, host=host, network=network, port=port)


def _without_scheme(text: str) -> tuple[str, str]:
    scheme, separator, rest = text.partition("://")
    if not separator:
        return "", text
    if scheme not in _PORTS:
        raise ValueError("its scheme is neither http nor https")
    return scheme, rest.removesuffix("/")


def _network(place: str) -> IPv4Network | IPv6Network | None:
    if "/" not in place:
        return None
    try:
        return ip_network(place)
    except ValueError as error:
        raise ValueError(f"it has a path, or is not a network ({error})") from None


def _host_and_port(place: str) -> tuple[str, int | None]:
    if place.count(":") > 1 and not place.startswith("["):
        place = f"[{place}]"  # IPv6 without a port
    if "@" in place or "%" in place or "?" in place or "#" in place:
        raise ValueError("it contains a name, a key, a zone or a query")
    parts = urlsplit(f"//{place}")
    return host_name(parts.hostname or ""), parts.port


def _refuse_metadata(host: str, network: IPv4Network | IPv6Network | None) -> None:
    addresses = list(network) if network is not None and network.num_addresses == 1 else []
    if is_metadata_name(host) or any(map(is_metadata, addresses)):
        raise ValueError("it is a metadata address of a cloud, which is never contacted")


def default_port(scheme: str) -> int:
    return _PORTS[scheme]
