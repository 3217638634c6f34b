"""Variants of a head: other values of the settings that its files often state wrongly.

Layer ids may be off by one or in reverse order, a norm may be in the wrong place, token ids may be
unshifted, and the halves of a joined input may be swapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from specviz.engine.heads.head import Head
from specviz.errors import PairError
from specviz.values import Value

# For each kind of head, the settings to vary: first switches, then numbers with their values.
_SWITCHES: Mapping[str, tuple[str, ...]] = {
    "eagle": ("embedding_first",),
    "eagle3": ("norm_before_residual", "recycle_normed", "embedding_first"),
    "mtp": ("embedding_first", "recycle_after_norm", "zero_first_embedding"),
    "medusa": (),
    "dflash": ("sample_from_anchor", "causal_windows"),
}
_NUMBERS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "eagle": {"shift_ids": (1, 0)},
    "eagle3": {"shift_ids": (1, 0)},
    "medusa": {"first_head": (0, 1)},
}


class Reading(Value, eq=False):
    """A variant of a head; ``changes`` are the settings that differ from the head's files."""

    changes: Mapping[str, Any]
    head: Head


def readings(head: Head, layers: int) -> list[Reading]:
    """Return the head with the settings of its files, and then its variants with other settings.

    The variants have all other combinations of settings that the head's weights allow.

    Args:
        layers: The target's number of layers.
    """
    own = head.settings
    options = {name: list(values) for name, values in _options(head, layers)}
    found = [Reading(changes={}, head=head)]
    for values in product(*options.values()):
        chosen = dict(zip(options, values, strict=True))
        changes = {name: each for name, each in chosen.items() if each != getattr(own, name)}
        if not changes:
            continue
        try:
            found.append(Reading(changes=changes, head=head.with_settings(replace(own, **changes))))
        except PairError:  # the head lacks the weights
            continue
    return found


def _options(head: Head, layers: int) -> Iterator[tuple[str, list[Any]]]:
    """Yield each setting that may be wrong and its possible values, the current value first."""
    own = head.settings
    if hasattr(own, "places") and min(own.places) >= 0:
        moved = [tuple(each + by for each in own.places) for by in (0, 1, -1)]
        inside = [each for each in moved if min(each) >= 0 and max(each) < layers]
        yield "places", list(dict.fromkeys([own.places, *inside, own.places[::-1]]))
    for name in _SWITCHES[head.kind]:
        value = getattr(own, name)
        yield name, [value, not value]
    for name, values in _NUMBERS.get(head.kind, {}).items():
        yield name, list(dict.fromkeys([getattr(own, name), *values]))
