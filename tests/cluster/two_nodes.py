"""A local cluster of two nodes with one core each, for tests that may kill them."""

from __future__ import annotations

import os
import secrets
from importlib import import_module
from typing import Any

import pytest

from specviz.cluster.address import has_ray

needs_ray = pytest.mark.skipif(
    not has_ray(), reason="THE CLUSTER IS NOT TESTED: Ray is not installed (make ray)"
)
_STORE_BYTES = 80_000_000
_QUICKLY = {
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
    "worker_niceness": 0,
}


class TwoNodes:
    """A cluster; ``address`` is for drivers with the environment of this process."""

    def __init__(self, nodes: int = 2) -> None:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        self._cluster: Any = import_module("ray.cluster_utils").Cluster()
        self._add(_system_config=_QUICKLY)
        self.second = self._add() if nodes > 1 else None

    @property
    def address(self) -> str:
        return self._cluster.address

    def replace_second(self) -> None:
        """Kill the second node with all its processes and start another."""
        self._cluster.remove_node(self.second, allow_graceful=False)
        self.second = self._add()

    def close(self) -> None:
        self._cluster.shutdown()

    def _add(self, **settings: Any) -> Any:
        return self._cluster.add_node(
            num_cpus=1,
            object_store_memory=_STORE_BYTES,
            include_dashboard=False,
            node_ip_address="127.0.0.2",  # Ray replaces 127.0.0.1 by a reachable address
            **settings,
        )
