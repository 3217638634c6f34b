"""Change settings in the configuration of a drafting head, such as an EAGLE-3 head."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from specviz.errors import ConfigError
from specviz.formats.heads import HeadFacts, section

_KEYS = {
    "norm_before_residual": "norm_before_residual",
    "norm_before_fc": "norm_before_fc",
    "fc_norm": "fc_norm",
    "recycle_normed": "norm_output",
    "sample_from_anchor": "sample_from_anchor",
}
_SPECULATORS = ("recycle_normed",)  # in other formats the key has another meaning
_OPPOSITES = {"causal_windows": "sliding_window_non_causal"}
_LAYER_IDS = ("eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids", "target_layer_ids")
_SECTIONS = ("eagle_config", "dflash_config")


def corrected_config(facts: HeadFacts, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the head's configuration with the changed settings.

    Raises:
        ConfigError: The format has no key for a setting.
    """
    config = copy.deepcopy(facts.config)
    for name, value in changes.items():
        if name == "places" and (facts.kind != "dflash" or facts.feature_layers):
            _set_layers(config, facts, value)
        elif name in _KEYS and (name not in _SPECULATORS or facts.layout == "speculators"):
            _set(config, _KEYS[name], value)
        elif name in _OPPOSITES:
            _set(config, _OPPOSITES[name], not value)
        else:
            raise ConfigError(
                f"A head's configuration has no key for {name}.",
                remedy="Train the head again, or rearrange its weights.",
            )
    return config


def _set_layers(config: dict[str, Any], facts: HeadFacts, places: tuple[int, ...]) -> None:
    offset = 1 if facts.convention == "output" else 0
    key, place, stated = _LAYER_IDS[0], config, list(facts.feature_layers)
    for part in (config, *(section(config, name) for name in _SECTIONS)):
        for name in _LAYER_IDS:
            if stated and part.get(name) == stated:  # the list that ``read_head`` used
                key, place = name, part
    place[key] = [each - offset for each in places]


def _set(config: dict[str, Any], key: str, value: bool) -> None:
    """Set a key in the section that already has it; without such a section, set it at the top."""
    for name in _SECTIONS:
        if key in section(config, name):
            config[name][key] = value
            return
    config[key] = value
