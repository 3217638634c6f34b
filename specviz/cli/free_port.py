"""Find a free port for the dashboard."""

from __future__ import annotations

import errno
import os
import socket
from ipaddress import ip_address

from specviz.errors import ConfigError

HIGHEST = 65_535
_MOST_PORTS = 100


def free_port(host: str, wanted: int) -> int:
    """Return the first free port from ``wanted`` on.

    Raises:
        ConfigError: The address is not an address of this machine, or no port is free or allowed.
    """
    family, address = _resolved(host)
    last = min(wanted + _MOST_PORTS - 1, HIGHEST)
    for port in range(wanted, last + 1):
        if _is_free(family, address, port):
            return port
    raise ConfigError(f"The ports {wanted} to {last} are in use.", remedy="Give another --port.")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_allowed(host: str) -> bool:
    """Return whether ``.streamlit/config.toml`` allows the host.

    It allows every IPv4 address, the loopback addresses, and the address that means "all
    addresses".
    """
    try:
        address = ip_address(host)
    except ValueError:
        return is_loopback(host)
    return address.version == 4 or address.is_unspecified or address.is_loopback


def _resolved(host: str) -> tuple[socket.AddressFamily, str]:
    try:
        family, *_, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    except OSError:  # also for a name that is not valid
        raise _not_here(host) from None
    return family, str(address[0])


def _is_free(family: socket.AddressFamily, address: str, port: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if os.name == "posix":  # as servers do, so that ended connections do not occupy the port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except PermissionError:
            raise ConfigError(
                f"Port {port} is reserved for administrators.", remedy="Give a --port above 1023."
            ) from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise _not_here(address) from None
    return True


def _not_here(host: str) -> ConfigError:
    return ConfigError(
        f"{host!r} is not an address of this machine.",
        remedy="Give --host with an address such as 127.0.0.1, or 0.0.0.0 for all addresses.",
    )
