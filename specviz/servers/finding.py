"""Which engine answers at an address, by what it answers."""

from __future__ import annotations

from typing import Any

from specviz.errors import ServerError
from specviz.record.server_run import ServerInfo
from specviz.servers.address import SERVER_KEY, KeyName
from specviz.servers.connection import QUICK, Connection, Limits
from specviz.servers.engines import ENGINES
from specviz.servers.failures import broken
from specviz.servers.pieces import inside

_MOST_NAMED = 5


def find_server(
    address: str,
    *,
    model: str | None = None,
    allow_remote: bool = False,
    key: KeyName = SERVER_KEY,
    limits: Limits = QUICK,
) -> ServerInfo:
    """``model``: which of several it shall be; else the first. ``key``: the variable of the
    environment that holds the bearer key, if there is one."""
    connection = Connection(address, key=key, allow_remote=allow_remote, limits=limits)
    name = _chosen(connection, model)
    found = (each.recognised(connection, name) for each in ENGINES)
    return next(info for info in found if info is not None)


def _chosen(connection: Connection, model: str | None) -> str:
    """The name of a model that it serves."""
    listed = inside(connection.get("/v1/models"), "data")
    rows = [each for each in listed if _named(each)] if isinstance(listed, list) else []
    if not rows:
        raise broken(connection.address, "has no list of models under /v1/models")
    chosen = rows[0] if model is None else next((r for r in rows if r["id"] == model), None)
    if chosen is None:
        names = ", ".join(row["id"][:80] for row in rows[:_MOST_NAMED])
        raise ServerError(
            f"{connection.address} serves no model {model!r}.", remedy=f"It serves {names}."
        )
    return chosen["id"]


def _named(row: Any) -> bool:
    return isinstance(inside(row, "id"), str)
