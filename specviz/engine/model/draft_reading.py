"""Incremental translation of target tokens into the draft's own tokens.

A shared token is appended as one draft token. For any other token, the draft's tokenizer tokenises
the current word again: the text since the last token that begins a word. A prompt is tokenised from
its text. So the draft's input depends on the text alone, not on the rounds that produced the text.
When target tokens are forgotten, the draft tokens that they replaced are restored.

Tokenising preserves bytes. If the draft's tokenizer would change the bytes, for example by a space
before a word, the longest draft tokens that match the bytes are used instead. Bytes and
special tokens that the draft does not have are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from specviz.engine.model.shared_tokens import SharedTokens, TokenVocabulary

# A word ends after this many target tokens: without spaces, the whole text would be one word.
_LONGEST_WORD = 32


@dataclass(frozen=True, slots=True)
class _Segment:
    """Target tokens that were translated together, and what to restore when they are forgotten."""

    tokens: tuple[int, ...]
    kept: int  # number of draft tokens that the segment left unchanged
    replaced: tuple[int, ...]  # draft tokens that the segment replaced
    word: tuple[int, int]  # ``_word`` before this segment: (segment index, draft token index)


class DraftReading:
    """A text of target tokens, translated into the draft's own tokens (``ids``)."""

    def __init__(self, shared: SharedTokens) -> None:
        self._shared = shared
        self._first = len(shared.lead)
        self.ids: list[int] = list(shared.lead)
        self.length = 0  # target tokens
        self._segments: list[_Segment] = []
        self._word = self._here  # start of the current word

    def read(self, token_ids: Sequence[int]) -> None:
        """Append many tokens at once: the draft's tokenizer tokenises their text."""
        marks = self._shared.target.marks
        for are_marks, run in groupby(token_ids, key=marks.__contains__):
            tokens = tuple(run)
            if are_marks:
                for token_id in tokens:
                    self.append(token_id)
                continue
            last = max((i for i, each in enumerate(tokens) if self._begins(each)), default=0)
            # The last word is a segment of its own, because the next token may continue it.
            for part in (tokens[:last], tokens[last:]):
                if part:
                    self._take(part, self._here, self._tokenised(part, len(self.ids)))

    def append(self, token_id: int) -> None:
        """Append one target token; replace the current word's draft tokens if necessary."""
        same, word = self._shared.to_draft.get(token_id), self._word
        added = [] if same is None else [same]
        if token_id in self._shared.target.marks:
            self._take((token_id,), word, [] if self._is_lead(token_id) else added)
            self._word = self._here
            return
        if self._begins(token_id) or len(self._segments) - word[0] >= _LONGEST_WORD:
            word = self._here
        if added:
            self._take((token_id,), word, added)
        else:
            tokens = [each for part in self._segments[word[0] :] for each in part.tokens]
            again = self._tokenised((*tokens, token_id), word[1])
            self._take((token_id,), word, again, kept=word[1])

    def forget(self, count: int) -> None:
        """Forget the last ``count`` target tokens; restore the draft tokens they replaced."""
        while count:
            last = self._segments.pop()
            self.ids[last.kept :] = last.replaced
            self.length -= len(last.tokens)
            self._word = last.word
            if count < len(last.tokens):
                self.read(last.tokens[:-count])
                return
            count -= len(last.tokens)

    @property
    def _here(self) -> tuple[int, int]:
        return len(self._segments), len(self.ids)

    def _take(
        self,
        tokens: tuple[int, ...],
        word: tuple[int, int],
        added: Sequence[int],
        kept: int | None = None,
    ) -> None:
        kept = len(self.ids) if kept is None else kept
        self._segments.append(_Segment(tokens, kept, tuple(self.ids[kept:]), self._word))
        self.ids[kept:] = added
        self.length += len(tokens)
        self._word = word

    def _is_lead(self, token_id: int) -> bool:
        """Return whether the BOS at the start of ``self.ids`` already represents this token.

        This is true if ``self.ids`` starts with the draft's BOS, and the token is the target's BOS
        at the start of the text.
        """
        begins = token_id == self._shared.target.tokenizer.bos_token_id
        return begins and self.length == 0 and self._first > 0

    def _begins(self, token_id: int) -> bool:
        return self._shared.target.table.pieces[token_id][:1].isspace()

    def _tokenised(self, tokens: Sequence[int], place: int) -> list[int]:
        """Return the draft's tokens for these target tokens.

        ``place``: the number of draft tokens before the returned ones. Some tokenizers add a space
        before a text. So at the start of a text, the space of the target's tokenizer is removed,
        and the space of the draft's tokenizer is added.
        """
        target, draft = self._shared.target, self._shared.draft
        written = b"".join(target.table.pieces[each] for each in tokens)
        if place == self._first:
            written = written.removeprefix(target.opening)
            written = draft.opening + written if written else b""
        return tokenised(draft, written)


def tokenised(vocabulary: TokenVocabulary, written: bytes) -> list[int]:
    """Return token ids whose bytes are ``written``; skip bytes that no token has."""
    try:
        return _encoded(vocabulary, written.decode())
    except UnicodeDecodeError as error:
        whole, rest = written[: error.start], written[error.start :]
        return [*_encoded(vocabulary, whole.decode()), *_greedy_pieces(vocabulary, rest)]


def _encoded(vocabulary: TokenVocabulary, text: str) -> list[int]:
    """Return the tokenizer's ids if they preserve the text, else ids from ``_greedy_pieces``.

    Some tokenizers prepend a space, so the text is also tried without its first space.
    """
    written = text.encode()
    for tried in dict.fromkeys((text, text.removeprefix(" "))):
        ids = vocabulary.tokenizer.encode(tried, add_special_tokens=False)
        ordinary = all(each < vocabulary.size and each not in vocabulary.marks for each in ids)
        if ordinary and b"".join(vocabulary.table.pieces[each] for each in ids) == written:
            return ids
    return _greedy_pieces(vocabulary, written)


def _greedy_pieces(vocabulary: TokenVocabulary, written: bytes) -> list[int]:
    """Return the ids of the longest matching tokens, from left to right; skip unmatched bytes."""
    ids, place = list[int](), 0
    while place < len(written):
        ends = range(min(len(written), place + vocabulary.longest), place, -1)
        end = next((each for each in ends if written[place:each] in vocabulary.by_bytes), None)
        if end is not None:
            ids.append(vocabulary.by_bytes[written[place:end]])
        place = end or place + 1
    return ids
