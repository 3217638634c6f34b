"""The tokens that two vocabularies share, matched by their bytes.

Ids cannot be compared: the same text has different ids in the two vocabularies. Special tokens
(``marks``) have no bytes. Two special tokens match if both are EOS, or if they have the same name.
A draft never proposes BOS, so BOS is not shared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from specviz.engine.model.text import TokenTable, make_token_table
from specviz.formats.token_bytes import is_byte_piece
from specviz.values import Value


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenVocabulary:
    """The bytes of a model's token ids, and the ids of its special tokens (``marks``)."""

    tokenizer: Any
    table: TokenTable
    marks: frozenset[int]

    @property
    def size(self) -> int:
        return len(self.table.pieces)

    @property
    def begin(self) -> int | None:
        """Return the id of BOS; None if BOS is missing or is the same token as EOS."""
        begin = self.tokenizer.bos_token_id
        return None if begin == self.tokenizer.eos_token_id else begin

    @cached_property
    def by_bytes(self) -> dict[bytes, int]:
        """Return the token id of each byte sequence that is an ordinary (not a special) token.

        If several tokens have the same bytes, prefer one that is not a byte-fallback token.
        """
        found: dict[bytes, int] = {}
        tokens = self.tokenizer.convert_ids_to_tokens(range(self.size))
        bare = [is_byte_piece(token or "") for token in tokens]
        for token_id in sorted(range(self.size), key=lambda each: bare[each]):
            piece = self.table.pieces[token_id]
            if piece and token_id not in self.marks:
                found.setdefault(piece, token_id)
        return found

    @cached_property
    def opening(self) -> bytes:
        """Return what the tokenizer adds before a text, as bytes: a space or nothing."""
        ids = self.tokenizer.encode("a", add_special_tokens=False)
        return b" " if b"".join(self.table.pieces[each] for each in ids) == b" a" else b""

    @cached_property
    def longest(self) -> int:
        """Return the number of bytes of the longest token."""
        return max(map(len, self.by_bytes), default=0)


def make_token_vocabulary(tokenizer: Any, vocabulary: int) -> TokenVocabulary:
    added = tokenizer.added_tokens_decoder
    marks = {*tokenizer.all_special_ids, *(i for i, token in added.items() if token.special)}
    return TokenVocabulary(
        tokenizer=tokenizer,
        table=make_token_table(tokenizer, vocabulary),
        marks=frozenset(marks),
    )


class SharedTokens(Value, eq=False):
    """Two vocabularies and their shared tokens.

    ``draft_context``: the draft's maximum context, in draft tokens.
    """

    target: TokenVocabulary
    draft: TokenVocabulary
    to_draft: dict[int, int] = field(repr=False)  # target id: draft id
    draft_context: int | None

    @property
    def count(self) -> int:
        return len(self.to_draft)

    @property
    def lead(self) -> tuple[int, ...]:
        """Return the BOS id that the draft's tokenizer puts before every text, if any."""
        begin = self.draft.tokenizer.bos_token_id
        ids = self.draft.tokenizer("")["input_ids"]
        return (begin,) if begin is not None and ids[:1] == [begin] else ()

    @property
    def filler_id(self) -> int:
        """Return the draft token that replaces an empty input, or an unshared token in a tree."""
        own = self.draft.tokenizer
        marks = (own.bos_token_id, own.eos_token_id, 0)
        return next(each for each in marks if each is not None and each < self.draft.size)


def share_tokens(
    target: TokenVocabulary, draft: TokenVocabulary, draft_context: int | None
) -> SharedTokens:
    """Match tokens with equal bytes one to one; special tokens match by name, EOS by its role."""
    theirs = draft.by_bytes
    to_draft = {ours: theirs[piece] for piece, ours in target.by_bytes.items() if piece in theirs}
    for ours, other in _marks(target, draft):
        if ours not in to_draft and other not in to_draft.values():
            to_draft[ours] = other
    return SharedTokens(
        target=target, draft=draft, to_draft=dict(sorted(to_draft.items())),
        draft_context=draft_context,
    )  # fmt: skip


def _marks(target: TokenVocabulary, draft: TokenVocabulary) -> list[tuple[int, int]]:
    """Return pairs of matching special tokens (target id, draft id), EOS first."""
    ends = (target.tokenizer.eos_token_id, draft.tokenizer.eos_token_id)
    named = {draft.table.text(each): each for each in sorted(draft.marks)}
    same = [(each, named.get(target.table.text(each))) for each in sorted(target.marks)]
    return [
        (ours, theirs)
        for ours, theirs in (ends, *same)
        if ours is not None and theirs is not None
        if ours != target.begin and theirs != draft.begin
        if ours < target.size and theirs < draft.size
    ]
