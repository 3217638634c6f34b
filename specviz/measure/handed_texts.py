"""Texts for suffix lookup that a pair is handed besides a run's own: kept runs, or a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from specviz.errors import ConfigError
from specviz.record.pairs import LIBRARY
from specviz.store import Library
from specviz.store.text_files import read_text

if TYPE_CHECKING:
    from specviz.engine import Pair

_MOST_RUNS = 1000  # the newest
_MOST_BYTES = 4 * 2**20  # of a file
_OPTION = "--suffix-texts"


def with_texts(pair: Pair, where: str) -> Pair:
    """The pair with the texts from there; the runs of the same target, whose tokens these are."""
    if not where:
        return pair
    from specviz.engine.model.suffix_automaton import SuffixAutomaton

    texts = _kept(pair) if where == LIBRARY else _read(pair, Path(where))
    texts = [text for text in texts if max(text) < pair.vocabulary]
    if not texts:
        raise ConfigError(
            f"{_OPTION} {where} has no text for this target.",
            remedy="Run it first, or name a text file.",
        )
    info = replace(pair.info, texts_sha256=_digest(texts))
    return replace(pair, texts=SuffixAutomaton(texts), info=info)


def _kept(pair: Pair) -> list[list[int]]:
    return Library().texts_by(pair.info.target.weights_sha256, _MOST_RUNS)


def _read(pair: Pair, path: Path) -> list[list[int]]:
    ids = pair.tokenizer.encode(read_text(path, _OPTION, _MOST_BYTES), add_special_tokens=False)
    return [ids] if ids else []


def _digest(texts: Sequence[Sequence[int]]) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()
