"""Which engine answers at an address, by what it answers."""

from __future__ import annotations

from specviz.record.server_run import ServerInfo
from specviz.servers.connection import SERVER_KEY, KeyName


def find_server(
    address: str,
    *,
    model: str | None = None,
    allow_remote: bool = False,
    key: KeyName = SERVER_KEY,
) -> ServerInfo:
    """``model``: which of several it shall be; else the first. ``key``: the variable of the
    environment that holds the bearer key, if there is one."""
    raise NotImplementedError
