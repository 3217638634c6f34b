"""What a kept run wrote, without the whole of its trace."""

from __future__ import annotations

import json
from typing import Any

from specviz.errors import StoreError
from specviz.store.packing import unpacked


def text_by(target_sha256: str, body: bytes) -> list[int]:
    """The tokens of its prompt and its text; none if another target wrote it, or nobody can say."""
    try:
        trace: Any = json.loads(unpacked(body))
        if trace["pair"]["target"]["weights_sha256"] != target_sha256:
            return []
        prompt, rounds = trace["prompt"]["token_ids"], trace["rounds"]
        tokens = [*prompt, *(token for entry in rounds for token in entry["emitted"])]
    except (StoreError, ValueError, KeyError, TypeError):
        return []
    return tokens if all(isinstance(token, int) for token in tokens) else []
