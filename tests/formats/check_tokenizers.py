"""Compare tokenizers with llama.cpp: ``python -m tests.formats.check_tokenizers [FILE…]``.

Without a file, every supported pre-tokenizer is checked on our byte-level vocabulary, and the
SentencePiece tokenizer on our pieces; llama.cpp's answers are recorded for the test suite. With
GGUF files, such as the vocabularies in llama.cpp's sources, their own vocabularies are checked.
Needs ``make rivals``.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from specviz.engine.loading.gguf_tokenizer import read_tokenizer
from specviz.formats.gguf_header import read_header
from specviz.formats.pre_tokenizers import PRE_TOKENIZERS
from tests.formats.hard_strings import hard_strings
from tests.formats.llamacpp_tokens import LlamaCppTokens, with_tiny_model
from tests.formats.vocabularies import (
    BLOCK,
    PIECES,
    RECORDED,
    STRINGS,
    strings,
    trained_merges,
    write_pieces,
    write_vocabulary,
)

Answers = list[list[int]]


def our_ids(tokenizer: Any, texts: Sequence[str]) -> Answers:
    """Return the ids of each text, with and without recognising special tokens."""
    found: Answers = []
    for text in texts:
        for special in (True, False):
            found.append(
                tokenizer.encode(text, add_special_tokens=False, split_special_tokens=not special)
            )
    return found


def digests(answers: Answers) -> list[str]:
    """Return a digest for each block of texts."""
    return [
        hashlib.sha256(json.dumps(block).encode()).hexdigest()[:12]
        for block in (answers[at : at + 2 * BLOCK] for at in range(0, len(answers), 2 * BLOCK))
    ]


def their_ids(path: Path, texts: Sequence[str]) -> Answers:
    server = LlamaCppTokens(path)
    return [server.ids(text, special=special) for text in texts for special in (True, False)]


def _differing(ours: Answers, theirs: Answers) -> int:
    return sum(one != other for one, other in zip(ours, theirs, strict=True))


def _record() -> int:
    merges, wrong = trained_merges(), 0
    recorded: dict[str, Any] = {"merges": merges, "digests": {}, "pieces": {}}
    with TemporaryDirectory() as folder:
        for pre in PRE_TOKENIZERS:
            path = write_vocabulary(Path(folder, f"{pre}.gguf"), merges, pre)
            recorded["digests"][pre], differing = _answers(path)
            wrong += differing
        for name, space in PIECES.items():
            path = write_pieces(Path(folder, f"{name}.gguf"), space=space)
            recorded["pieces"][name], differing = _answers(path)
            wrong += differing
    RECORDED.write_text(json.dumps(recorded, ensure_ascii=False, indent=0), encoding="utf-8")
    return wrong


def _answers(path: Path) -> tuple[list[str], int]:
    """Return the digests of llama.cpp's answers, and the number of ours that differ."""
    texts = strings()
    theirs = their_ids(path, texts)
    differing = _differing(our_ids(read_tokenizer(read_header(path)), texts), theirs)
    print(f"{path.stem}: {differing} of {len(theirs)} differ", flush=True)
    return digests(theirs), differing


def _check(path: Path) -> int:
    header = read_header(path)
    tokens = header.strings("tokenizer.ggml.tokens")
    kinds = header.numbers("tokenizer.ggml.token_type")
    special = [text for text, kind in zip(tokens, kinds, strict=False) if kind in (3, 4)][:24]
    texts = hard_strings(STRINGS, special)
    tokenizer = read_tokenizer(header)
    with TemporaryDirectory() as folder:
        theirs = their_ids(with_tiny_model(path, Path(folder, "tiny.gguf")), texts)
    differing = _differing(our_ids(tokenizer, texts), theirs)
    print(f"{path.name}: {differing} of {len(theirs)} differ", flush=True)
    return differing


if __name__ == "__main__":
    sys.exit(1 if (sum(map(_check, map(Path, sys.argv[1:]))) if sys.argv[1:] else _record()) else 0)
