"""The connection to a cluster: one that runs, or one on this machine that ends with it."""

from __future__ import annotations

import logging
import os
import secrets
from importlib import import_module
from types import ModuleType
from typing import Any

from specviz.cluster.address import has_ray
from specviz.errors import ConfigError, DeviceError

_STORE_BYTES = 80_000_000  # of the local cluster; a run takes far less
_LOOPBACK = "127.0.0.2"  # Ray takes 127.0.0.1 for the address that others reach
_ADDRESS, _MODE, _TOKEN = "RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"


class Connection:
    """``ray`` is the library, connected. Who closes it ends the cluster that it has started."""

    def __init__(self, address: str = "") -> None:
        self.address = address or os.environ.get(_ADDRESS, "")
        if not self.address:
            _keep_to_ourselves()
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
            _system_config={"worker_niceness": 0},  # or whatever else runs would go before
            **quiet,
        )

    def _refused(self, error: Exception) -> DeviceError:
        what = " ".join(str(error).split())
        if not self.address:
            return DeviceError(
                f"Ray could not start here: {what}", remedy="Look for room in memory and /tmp."
            )
        return DeviceError(
            f"No cluster can be used at {self.address}: {what}",
            remedy=f"Check the address, and that {_MODE} and the token are those of the cluster.",
        )


def _keep_to_ourselves() -> None:
    """A cluster of this machine alone has a token that nobody else has; Ray reads this when it is
    imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault(_MODE, "token")
    os.environ.setdefault(_TOKEN, secrets.token_hex(32))


def _library() -> ModuleType:
    if not has_ray():
        raise ConfigError("Ray is not installed.", remedy="Install it with make ray.")
    return import_module("ray")
