"""The bytes of every token of a tokenizer, read from its files without building the tokenizer.

Two models can form a pair if their tokenizers have the same bytes for every id. The bytes also show
which tokens two different vocabularies share.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from specviz.errors import ModelFileError
from specviz.formats.gguf_header import GgufHeader

# Token types of a GGUF file.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SENTENCE_PIECE, BYTE_LEVEL = "llama", "gpt2"  # values of tokenizer.ggml.model

# Tokens that end an answer even if the file does not say so; llama.cpp has a similar list.
END_TEXTS = frozenset(
    {"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<end_of_turn>", "<|endoftext|>",
     "<|end_of_text|>", "<|eom_id|>", "<EOT>", "</s>", "<eos>"}
)  # fmt: skip

TokenBytes = dict[int, bytes]

_LITERAL = (UNKNOWN, CONTROL, USER_DEFINED)
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"  # SentencePiece's mark for a space
_MAX_BYTES = 256 << 20


@cache
def byte_of_letter() -> dict[str, int]:
    """Return the byte for each character of GPT-2's byte-level vocabulary."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}


def gguf_token_bytes(header: GgufHeader) -> TokenBytes:
    """Return the bytes of each token of a GGUF file, except for tokens of the type "unused"."""
    tokens = header.strings("tokenizer.ggml.tokens")
    kinds = [int(each) for each in header.numbers("tokenizer.ggml.token_type")]
    kinds += [NORMAL] * (len(tokens) - len(kinds))
    is_byte_level = header.text("tokenizer.ggml.model") == BYTE_LEVEL
    read = byte_level_bytes if is_byte_level else sentencepiece_bytes
    return {
        place: text.encode() if kind in _LITERAL else read(text)
        for place, (text, kind) in enumerate(zip(tokens, kinds, strict=False))
        if kind != UNUSED
    }


def json_token_bytes(path: Path) -> TokenBytes:
    """Return the bytes of each token of a ``tokenizer.json``.

    Raises:
        ModelFileError: The file is too large or is not a tokenizer.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError("too large")
        record = json.loads(path.read_bytes())
        model = record["model"]
        read = byte_level_bytes if is_byte_level(record) else sentencepiece_bytes
        found = {place: read(text) for text, place in _entries(model["vocab"])}
        added = {each["id"]: each["content"].encode() for each in record.get("added_tokens") or ()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelFileError(
            f"{path.name} is not a tokenizer.", remedy="Copy or download the file again."
        ) from None
    return found | added


def _entries(vocabulary: Any) -> Iterable[tuple[str, int]]:
    if isinstance(vocabulary, dict):
        return vocabulary.items()
    return ((text, place) for place, (text, _score) in enumerate(vocabulary))


def is_byte_level(record: dict[str, Any]) -> bool:
    """Return whether a ``tokenizer.json`` represents bytes as characters, as in GPT-2."""
    parts = (record.get("pre_tokenizer"), record.get("decoder"))
    return any('"ByteLevel"' in json.dumps(part) for part in parts)


def byte_level_bytes(text: str) -> bytes:
    """Return the bytes of a token of a byte-level vocabulary."""
    letters = byte_of_letter()
    try:
        return bytes([letters[letter] for letter in text])
    except KeyError:
        return text.encode()


def is_byte_piece(text: str) -> bool:
    """Return whether the token is a byte-fallback token such as ``<0x0A>``."""
    return _BYTE.fullmatch(text) is not None


def sentencepiece_bytes(text: str) -> bytes:
    """Return the bytes of a token of a SentencePiece vocabulary."""
    if found := _BYTE.fullmatch(text):
        return bytes([int(found[1], 16)])
    return text.replace(_SPACE, " ").encode()


def fingerprint_of(tokens: Mapping[int, bytes]) -> str:
    """Return a digest of the mapping from ids to bytes."""
    digest = hashlib.sha256()
    for place in sorted(tokens):
        digest.update(b"%d %d " % (place, len(tokens[place])))
        digest.update(tokens[place])
    return digest.hexdigest()[:16]


def shared_share(target: TokenBytes, draft: TokenBytes) -> float:
    """Return the share of the target's tokens that the draft has, too.

    Two tokens are equal if their bytes are equal.
    """
    theirs = set(draft.values())
    return sum(each in theirs for each in target.values()) / len(target) if target else 0.0
