"""A table of the bytes and texts of all tokens, made when a pair is loaded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.formats.token_bytes import byte_level_bytes, sentencepiece_bytes


@dataclass(frozen=True, slots=True, eq=False)
class TokenTable:
    """The bytes and text of each token id; a character may be split over several ids."""

    pieces: tuple[bytes, ...]
    texts: tuple[str, ...]

    def text(self, token_id: int) -> str:
        return self.texts[token_id] if token_id < len(self.texts) else ""

    def join(self, token_ids: Iterable[int]) -> str:
        """Return the text of several tokens; characters that are split over tokens are joined."""
        joined = b"".join(self.pieces[i] for i in token_ids if i < len(self.pieces))
        return joined.decode("utf-8", errors="replace")

    def split(self, token_ids: Iterable[int]) -> dict[str, str]:
        """Return the bytes, in hex, of each token that contains only part of a character.

        The keys are the token ids.
        """
        suspects = (i for i in token_ids if "\ufffd" in self.text(i))
        return {str(i): self.pieces[i].hex() for i in suspects if not _whole(self.pieces[i])}


def _whole(piece: bytes) -> bool:
    return piece.decode("utf-8", errors="ignore").encode() == piece


def make_token_table(tokenizer: Any, vocabulary: int) -> TokenTable:
    tokens: Sequence[str | None] = tokenizer.convert_ids_to_tokens(range(vocabulary))
    added = {i: str(token.content) for i, token in tokenizer.added_tokens_decoder.items()}
    to_bytes = byte_level_bytes if _is_byte_level(tokenizer) else sentencepiece_bytes
    pieces = tuple(
        added[i].encode() if i in added else to_bytes(token or "") for i, token in enumerate(tokens)
    )
    return TokenTable(pieces, tuple(piece.decode("utf-8", errors="replace") for piece in pieces))


def _is_byte_level(tokenizer: Any) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return hasattr(tokenizer, "byte_decoder")
    return "ByteLevel" in json.dumps(json.loads(backend.to_str()).get("decoder"))
