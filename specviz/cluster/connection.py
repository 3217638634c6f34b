"""The connection to a running Ray cluster, or to a local cluster that ends with the connection."""

from __future__ import annotations

import logging
import os
import secrets
from importlib import import_module
from types import ModuleType
from typing import Any

from specviz.cluster.address import has_ray
from specviz.errors import ConfigError, DeviceError
from specviz.installation import INSTALL_RAY

_STORE_BYTES = 80_000_000  # of the local object store; a run takes far less
_LOOPBACK = "127.0.0.2"  # Ray replaces 127.0.0.1 by an address that other machines can reach
_ADDRESS, _MODE, _TOKEN = "RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"


class Connection:
    """A connection to Ray; ``close`` also ends a cluster that this connection started."""

    def __init__(self, address: str = "") -> None:
        self.address = address or os.environ.get(_ADDRESS, "")
        if not self.address:
            _use_private_token()
        self.ray: Any = _library()
        self._ours = not self.ray.is_initialized()
        if self._ours:
            self._connect()

    def close(self) -> None:
        if self._ours and self.ray.is_initialized():
            self.ray.shutdown()

    def _connect(self) -> None:
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            if self.address:
                self.ray.init(address=self.address, **quiet)
            else:
                self._start(quiet)
        except (ConnectionError, RuntimeError, ValueError, self.ray.exceptions.RayError) as error:
            raise self._refused(error) from error

    def _start(self, quiet: dict[str, Any]) -> None:
        self.ray.init(
            address="local",
            include_dashboard=False,
            object_store_memory=_STORE_BYTES,
            _node_ip_address=_LOOPBACK,
            # With the default niceness, other processes would take precedence.
            _system_config={"worker_niceness": 0},
            **quiet,
        )

    def _refused(self, error: Exception) -> DeviceError:
        what = " ".join(str(error).split())
        if not self.address:
            return DeviceError(
                f"Ray could not start here: {what}",
                remedy="Check free memory and the space in /tmp.",
            )
        return DeviceError(
            f"Cannot connect to a cluster at {self.address}: {what}",
            remedy=f"Check the address, and that {_MODE} and the token match the cluster.",
        )


def _use_private_token() -> None:
    """Set a random token for a local cluster, in variables that Ray reads when imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault(_MODE, "token")
    os.environ.setdefault(_TOKEN, secrets.token_hex(32))


def _library() -> ModuleType:
    if not has_ray():
        raise ConfigError("Ray is not installed.", remedy=f"Install it with `{INSTALL_RAY}`.")
    return import_module("ray")
