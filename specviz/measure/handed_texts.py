"""Load further texts for suffix lookup, besides the run's own text: stored runs or a file."""

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

_MOST_RUNS = 1000  # read from the library, newest runs first
_MOST_BYTES = 4 * 2**20  # of a text file
_OPTION = "--suffix-texts"


def with_texts(pair: Pair, where: str) -> Pair:
    """Return the pair with texts that suffix lookup searches besides the run's own text.

    Args:
        where: A text file's path; ``LIBRARY`` for the texts of stored runs; empty for none.
    """
    if not where:
        return pair
    from specviz.engine.model.suffix_automaton import SuffixAutomaton

    texts = _stored_texts(pair) if where == LIBRARY else _file_text(pair, Path(where))
    texts = [text for text in texts if max(text) < pair.vocabulary]
    if not texts:
        raise ConfigError(
            f"{_OPTION} {where} has no text for this target.",
            remedy="Run this target first, or give a text file.",
        )
    info = replace(pair.info, texts_sha256=_digest(texts))
    return replace(pair, texts=SuffixAutomaton(texts), info=info)


def _stored_texts(pair: Pair) -> list[list[int]]:
    return Library().texts_by(pair.info.target.weights_sha256, _MOST_RUNS)


def _file_text(pair: Pair, path: Path) -> list[list[int]]:
    ids = pair.tokenizer.encode(read_text(path, _OPTION, _MOST_BYTES), add_special_tokens=False)
    return [ids] if ids else []


def _digest(texts: Sequence[Sequence[int]]) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()
