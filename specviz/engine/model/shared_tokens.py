"""The tokens that two vocabularies have in common, found by the bytes that they write.

Ids say nothing: the same word has another id in each vocabulary. Marks, such as the end of a text,
write nothing; two of them are the same where both models end a text with them, or where they have
one name. The mark that begins a text is never proposed, so it is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from specviz.engine.model.text import TokenTable, is_byte_piece, make_token_table


@dataclass(frozen=True, eq=False, kw_only=True)
class Wording:
    """What the ids of one model write, and which of them are marks."""

    tokenizer: Any
    table: TokenTable
    marks: frozenset[int]

    @property
    def size(self) -> int:
        return len(self.table.pieces)

    @property
    def begin(self) -> int | None:
        """The mark of a beginning, where it has no other meaning."""
        begin = self.tokenizer.bos_token_id
        return None if begin == self.tokenizer.eos_token_id else begin

    @cached_property
    def by_bytes(self) -> dict[bytes, int]:
        """The id that writes these bytes; a piece that stands for a lone byte only as a last
        resort."""
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
        """What the tokenizer writes before the first word of a text: a space, or nothing."""
        ids = self.tokenizer.encode("a", add_special_tokens=False)
        return b" " if b"".join(self.table.pieces[each] for each in ids) == b" a" else b""

    @cached_property
    def longest(self) -> int:
        """Bytes of the longest piece."""
        return max(map(len, self.by_bytes), default=0)


def make_wording(tokenizer: Any, vocabulary: int) -> Wording:
    added = tokenizer.added_tokens_decoder
    marks = {*tokenizer.all_special_ids, *(i for i, token in added.items() if token.special)}
    return Wording(
        tokenizer=tokenizer,
        table=make_token_table(tokenizer, vocabulary),
        marks=frozenset(marks),
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SharedTokens:
    """Two vocabularies and what they share. ``draft_context``: the most tokens of its own that the
    draft reads."""

    target: Wording
    draft: Wording
    to_draft: dict[int, int] = field(repr=False)  # ids of the same token
    draft_context: int | None

    @property
    def count(self) -> int:
        return len(self.to_draft)

    @property
    def lead(self) -> tuple[int, ...]:
        """What the draft's own tokenizer puts before every text."""
        begin = self.draft.tokenizer.bos_token_id
        ids = self.draft.tokenizer("")["input_ids"]
        return (begin,) if begin is not None and ids[:1] == [begin] else ()

    @property
    def silence(self) -> int:
        """What a draft reads that has nothing else to read."""
        own = self.draft.tokenizer
        marks = (own.bos_token_id, own.eos_token_id, 0)
        return next(each for each in marks if each is not None and each < self.draft.size)


def share_tokens(target: Wording, draft: Wording, draft_context: int | None) -> SharedTokens:
    """One to one: no token of either stands for two of the other."""
    theirs = draft.by_bytes
    to_draft = {ours: theirs[piece] for piece, ours in target.by_bytes.items() if piece in theirs}
    for ours, other in _marks(target, draft):
        if ours not in to_draft and other not in to_draft.values():
            to_draft[ours] = other
    return SharedTokens(
        target=target, draft=draft, to_draft=dict(sorted(to_draft.items())),
        draft_context=draft_context,
    )  # fmt: skip


def _marks(target: Wording, draft: Wording) -> list[tuple[int, int]]:
    """Marks of one meaning, the end of a text first."""
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
