"""A drafter class of the user's own, by its name ``module:Class``.

It is made with the pair, the settings and the length of the longest text, and has the methods of
``drafting.Drafter``. Importing it runs its code, so only a command line or a file that the user
wrote may name one.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from specviz.engine.model.pair import Pair
from specviz.errors import ConfigError
from specviz.record.run_config import RunConfig

_METHODS = ("prefill", "propose", "settle")


def own_drafter(pair: Pair, config: RunConfig, capacity: int) -> Any:
    """Raises ConfigError where there is no such class, or it is no drafter."""
    module, _, name = config.drafter.partition(":")
    try:
        made = getattr(import_module(module), name)(pair, config, capacity)
    except Exception as error:
        raise ConfigError(
            f"The drafter {config.drafter} cannot be made: {error}.",
            remedy="Name a class MODULE:CLASS that Python finds; it takes pair, config, capacity.",
        ) from None
    missing = [each for each in (*_METHODS, "wants_hidden") if not hasattr(made, each)]
    if missing:
        raise ConfigError(
            f"The drafter {config.drafter} has no {missing[0]}.",
            remedy="Give it wants_hidden, prefill, propose and settle.",
        )
    return made
