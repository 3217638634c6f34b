"""Model folders with a reduced output: draft models that can propose only some of their tokens.

Their ``lm_head.weight`` has a row for each of these tokens. As in EAGLE-3 heads, ``d2t`` has
offsets: row i is token i + d2t[i]. ``config.json`` states the number of rows as
``draft_vocab_size``. Other libraries cannot load such a folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

PROPOSED = "draft_vocab_size"
OFFSETS = "d2t"
OUTPUT = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"
_LAYER, _JOINING = "model.layers.0.", "fc.weight"


def proposed_count(config: Mapping[str, Any]) -> int | None:
    """Return how many tokens a model can propose; None if it can propose all."""
    count = config.get(PROPOSED)
    return count if type(count) is int and count > 0 else None


def is_reduced_model(names: Iterable[str]) -> bool:
    """Return whether these tensor names belong to a model with a reduced output, not a head."""
    known = set(names)
    layers = any(name.startswith(_LAYER) for name in known)
    return OFFSETS in known and EMBEDDING in known and layers and _JOINING not in known
