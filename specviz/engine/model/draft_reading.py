"""A text of the target's tokens as the draft reads it: in tokens of its own.

A token that both share is one token more. Any other makes the draft read its word again: from the
last token that begins one, the text is tokenised as the draft's tokenizer does it. A prompt is
tokenised from its text. So what the draft has read depends on the text alone, not on the rounds
that it was written in, and forgetting tokens brings back exactly what was read before them.

Whatever is tokenised writes the same bytes again. Where the draft's tokenizer would change them, by
a space of its own before a word or by half a character, the longest pieces that write these bytes
are taken; a byte that no token of the draft writes is left out. So are marks that it has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from specviz.engine.model.shared_tokens import SharedTokens, Wording

_LONGEST_WORD = 32  # target tokens that are read again at most, where a text has no spaces


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Target tokens that were read together, and what to put back when they are forgotten."""

    tokens: tuple[int, ...]
    kept: int  # draft tokens before it that stayed
    replaced: tuple[int, ...]  # draft tokens whose place it took
    word: tuple[int, int]  # before it: where the word began, in stretches and in draft tokens


class DraftReading:
    """``ids`` are the draft's own tokens."""

    def __init__(self, shared: SharedTokens) -> None:
        self._shared = shared
        self._first = len(shared.lead)
        self.ids: list[int] = list(shared.lead)
        self.length = 0  # target tokens
        self._stretches: list[_Stretch] = []
        self._word = self._here  # where the word begins that goes on

    def read(self, token_ids: Sequence[int]) -> None:
        """Many tokens at once, tokenised from their text."""
        marks = self._shared.target.marks
        for are_marks, run in groupby(token_ids, key=marks.__contains__):
            tokens = tuple(run)
            if are_marks:
                for token_id in tokens:
                    self.append(token_id)
                continue
            last = max((i for i, each in enumerate(tokens) if self._begins(each)), default=0)
            for part in (tokens[:last], tokens[last:]):  # the last word may be read again
                if part:
                    self._take(part, self._here, self._tokenised(part, len(self.ids)))

    def append(self, token_id: int) -> None:
        """One token more."""
        same, word = self._shared.to_draft.get(token_id), self._word
        added = [] if same is None else [same]
        if token_id in self._shared.target.marks:
            self._take((token_id,), word, [] if self._is_lead(token_id) else added)
            self._word = self._here
            return
        if self._begins(token_id) or len(self._stretches) - word[0] >= _LONGEST_WORD:
            word = self._here
        if added:
            self._take((token_id,), word, added)
        else:
            tokens = [each for part in self._stretches[word[0] :] for each in part.tokens]
            again = self._tokenised((*tokens, token_id), word[1])
            self._take((token_id,), word, again, kept=word[1])

    def forget(self, count: int) -> None:
        """Of the target's tokens, the last so many."""
        while count:
            last = self._stretches.pop()
            self.ids[last.kept :] = last.replaced
            self.length -= len(last.tokens)
            self._word = last.word
            if count < len(last.tokens):
                self.read(last.tokens[:-count])
                return
            count -= len(last.tokens)

    @property
    def _here(self) -> tuple[int, int]:
        return len(self._stretches), len(self.ids)

    def _take(
        self,
        tokens: tuple[int, ...],
        word: tuple[int, int],
        added: Sequence[int],
        kept: int | None = None,
    ) -> None:
        kept = len(self.ids) if kept is None else kept
        self._stretches.append(_Stretch(tokens, kept, tuple(self.ids[kept:]), self._word))
        self.ids[kept:] = added
        self.length += len(tokens)
        self._word = word

    def _is_lead(self, token_id: int) -> bool:
        """Whether it says what the draft was told at the beginning."""
        begins = token_id == self._shared.target.tokenizer.bos_token_id
        return begins and self.length == 0 and self._first > 0

    def _begins(self, token_id: int) -> bool:
        return self._shared.target.table.pieces[token_id][:1].isspace()

    def _tokenised(self, tokens: Sequence[int], place: int) -> list[int]:
        """``place``: draft tokens before them. A text begins with a space where the tokenizer
        says so."""
        target, draft = self._shared.target, self._shared.draft
        written = b"".join(target.table.pieces[each] for each in tokens)
        if place == self._first:
            written = written.removeprefix(target.opening)
            written = draft.opening + written if written else b""
        return tokenised(draft, written)


def tokenised(wording: Wording, written: bytes) -> list[int]:
    """Tokens that write these bytes."""
    try:
        return _encoded(wording, written.decode())
    except UnicodeDecodeError as error:
        whole, rest = written[: error.start], written[error.start :]
        return [*_encoded(wording, whole.decode()), *_spelt(wording, rest)]


def _encoded(wording: Wording, text: str) -> list[int]:
    """As the tokenizer does it, if that writes the text; some put a space before it."""
    written = text.encode()
    for tried in dict.fromkeys((text, text.removeprefix(" "))):
        ids = wording.tokenizer.encode(tried, add_special_tokens=False)
        words = all(each < wording.size and each not in wording.marks for each in ids)
        if words and b"".join(wording.table.pieces[each] for each in ids) == written:
            return ids
    return _spelt(wording, written)


def _spelt(wording: Wording, written: bytes) -> list[int]:
    """In the longest pieces from the left."""
    ids, place = list[int](), 0
    while place < len(written):
        ends = range(min(len(written), place + wording.longest), place, -1)
        end = next((each for each in ends if written[place:each] in wording.by_bytes), None)
        if end is not None:
            ids.append(wording.by_bytes[written[place:end]])
        place = end or place + 1
    return ids
