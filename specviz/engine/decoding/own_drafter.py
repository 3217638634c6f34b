"""Load a user-defined drafter class by its name ``module:Class``.

The class is constructed with the pair, the settings and the cache capacity, and has the methods of
``drafting.Drafter``. ``wants_hidden`` names the target's hidden states that the drafter reads:
False for none, True for the final states, or ``HiddenStates`` for any layers. A drafter that needs
the target as a transformers model gets it from ``in_transformers(pair.target)``. Importing a class
runs the code of its module, so the name must come from the command line or from a file that the
user wrote.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from specviz.engine.model.pair import Pair
from specviz.errors import ConfigError
from specviz.record.run_config import RunConfig

_METHODS = ("prefill", "propose", "settle")


def own_drafter(pair: Pair, config: RunConfig, capacity: int) -> Any:
    """Return an instance of the class that the settings name.

    Raises:
        ConfigError: the class does not exist, cannot be constructed, or lacks a drafter's methods.
    """
    module, _, name = config.drafter.partition(":")
    try:
        made = getattr(import_module(module), name)(pair, config, capacity)
    except Exception as error:
        raise ConfigError(
            f"Cannot create the drafter {config.drafter}: {error}.",
            remedy="Name an importable class MODULE:CLASS that takes pair, config, capacity.",
        ) from None
    missing = [each for each in (*_METHODS, "wants_hidden") if not hasattr(made, each)]
    if missing:
        raise ConfigError(
            f"The drafter {config.drafter} has no {missing[0]}.",
            remedy="Define wants_hidden, prefill, propose and settle in the class.",
        )
    return made
