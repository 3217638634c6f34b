"""Which engine answers at an address, by what it answers."""

from __future__ import annotations

from typing import Any

from specviz.errors import ServerError
from specviz.record.server_run import ServerInfo
from specviz.servers.address import SERVER_KEY, KeyName
from specviz.servers.connection import QUICK, Connection, Limits
from specviz.servers.engines import ENGINES
from specviz.servers.failures import broken
from specviz.servers.pieces import Listed, inside

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
    chosen = _chosen(connection, model)
    found = (each.recognised(connection, chosen) for each in ENGINES)
    return next(info for info in found if info is not None)


def find_models(
    address: str,
    *,
    allow_remote: bool = False,
    key: KeyName = SERVER_KEY,
    limits: Limits = QUICK,
) -> tuple[str, ...]:
    """The names of the models that it serves; at least one."""
    connection = Connection(address, key=key, allow_remote=allow_remote, limits=limits)
    return tuple(each.model for each in _models(connection))


def _models(connection: Connection) -> tuple[Listed, ...]:
    listed = inside(connection.get("/v1/models"), "data")
    rows = map(_row, listed) if isinstance(listed, list) else ()
    if not (found := tuple(row for row in rows if row is not None)):
        raise broken(connection.address, "has no list of models under /v1/models")
    return found


def _chosen(connection: Connection, model: str | None) -> Listed:
    models = _models(connection)
    for each in models:
        if model is None or each.model == model:
            return each
    some = ", ".join(each.model[:80] for each in models[:_MOST_NAMED])
    raise ServerError(
        f"{connection.address} serves no model {model!r}.", remedy=f"It serves {some}."
    )


def _row(row: Any) -> Listed | None:
    name, owner = inside(row, "id"), inside(row, "owned_by")
    if not isinstance(name, str):
        return None
    return Listed(model=name, owner=owner if isinstance(owner, str) else None)
