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


def find_models(
    address: str,
    *,
    allow_remote: bool = False,
    key: KeyName = SERVER_KEY,
    limits: Limits = QUICK,
) -> tuple[str, ...]:
    """The names of the models that it serves; at least one."""
    return _models(Connection(address, key=key, allow_remote=allow_remote, limits=limits))


def _models(connection: Connection) -> tuple[str, ...]:
    listed = inside(connection.get("/v1/models"), "data")
    rows = [each for each in listed if _named(each)] if isinstance(listed, list) else []
    if not rows:
        raise broken(connection.address, "has no list of models under /v1/models")
    return tuple(row["id"] for row in rows)


def _chosen(connection: Connection, model: str | None) -> str:
    """The name of a model that it serves."""
    names = _models(connection)
    if model is None or model in names:
        return model or names[0]
    some = ", ".join(each[:80] for each in names[:_MOST_NAMED])
    raise ServerError(
        f"{connection.address} serves no model {model!r}.", remedy=f"It serves {some}."
    )


def _named(row: Any) -> bool:
    return isinstance(inside(row, "id"), str)
