"""Recognise the engine at an address by its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specviz.errors import ServerError
from specviz.record.server_run import ServerInfo
from specviz.servers.address import SERVER_KEY, KeyName
from specviz.servers.connection import QUICK, Connection, Limits
from specviz.servers.engines import ENGINES
from specviz.servers.failures import broken
from specviz.servers.foreign_json import inside, one_line_name
from specviz.servers.pieces import Listed

_MOST_NAMED = 5
_MOST_MODELS = 1000
_PAGES = 3  # the time limit of all nine pages together, in limits of one page


def find_server(
    address: str,
    *,
    model: str | None = None,
    allow_remote: bool = False,
    key: KeyName = SERVER_KEY,
    limits: Limits = QUICK,
    begin: Callable[[Connection], object] | None = None,
) -> ServerInfo:
    """Return the engine and model at an address.

    Args:
        model: The model's name, if the engine serves several; None for the first.
        key: The environment variable with the bearer key. The key must be bound to this address.
        begin: Called with the connection before its first request, so that the caller can stop it.
    """
    connection = Connection(
        address, key=key, allow_remote=allow_remote, limits=limits, seconds=_PAGES * limits.total
    )
    if begin is not None:
        begin(connection)
    chosen = _chosen(connection, model)
    *known, other = ENGINES
    infos = (each.adapter.recognised(connection, chosen) for each in known)
    found = [info for info in infos if info is not None]
    if len(found) > 1:
        raise ServerError(
            f"{connection.address} answers as {' and as '.join(each.title for each in found)}: "
            "several engines share this address.",
            remedy="Give the address of a single engine.",
        )
    info = found[0] if found else other.adapter.recognised(connection, chosen)
    assert info is not None
    return info


def find_models(
    address: str,
    *,
    allow_remote: bool = False,
    key: KeyName = SERVER_KEY,
    limits: Limits = QUICK,
) -> tuple[str, ...]:
    """Return the names of the models at an address; raises ServerError if there are none."""
    connection = Connection(address, key=key, allow_remote=allow_remote, limits=limits)
    return tuple(each.model for each in _models(connection))


def _models(connection: Connection) -> tuple[Listed, ...]:
    listed = inside(connection.get("/v1/models"), "data")
    rows = map(_row, listed[:_MOST_MODELS]) if isinstance(listed, list) else ()
    if not (found := tuple(row for row in rows if row is not None)):
        raise broken(connection.address, "has no list of models at /v1/models")
    return found


def _chosen(connection: Connection, model: str | None) -> Listed:
    models = _models(connection)
    for each in models:
        if model is None or each.model == model:
            return each
    some = ", ".join(each.model[:80] for each in models[:_MOST_NAMED])
    raise ServerError(
        f"{connection.address} serves no model {model!r}.",
        remedy=f"Choose a model that it serves: {some}.",
    )


def _row(row: Any) -> Listed | None:
    name, owner = inside(row, "id"), inside(row, "owned_by")
    if not isinstance(name, str) or not (model := one_line_name(name)):
        return None
    return Listed(model=model, owner=owner if isinstance(owner, str) else None)
