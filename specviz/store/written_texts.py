"""The tokens of a stored run, read without validating its whole trace."""

from __future__ import annotations

import json
from typing import Any

from specviz.errors import StoreError
from specviz.store.packing import unpacked


def text_by(target_sha256: str, body: bytes) -> list[int]:
    """Return a run's prompt and output tokens.

    The result is empty if the run has another target or is damaged.
    """
    try:
        trace: Any = json.loads(unpacked(body))
        if trace["pair"]["target"]["weights_sha256"] != target_sha256:
            return []
        prompt, rounds = trace["prompt"]["token_ids"], trace["rounds"]
        tokens = [*prompt, *(token for entry in rounds for token in entry["emitted"])]
    except (StoreError, ValueError, KeyError, TypeError):
        return []
    return tokens if all(isinstance(token, int) for token in tokens) else []
