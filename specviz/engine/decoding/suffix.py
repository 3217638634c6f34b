"""Suffix lookup (SuffixDecoding, arXiv 2411.04975): copy the most frequent continuation.

The match is the longest suffix of the text that occurred earlier with a token after it, in the text
itself or in texts given in advance. The drafter proposes the token that most often followed the
match. A tie goes to the latest occurrence; the run's own text counts as later than all given texts.
Each candidate extends the match, and the extended match gives the next candidate in the same way.
The extended match contains tokens of the text, then candidates. Drafting ends when at least half of
the match are candidates. So a match of n tokens gives at most n candidates. A text that repeats
itself has long matches and gives as many candidates as requested. A match has at most twice as many
tokens as a round can have candidates; this limit bounds the cost when one token repeats. Matches
are found with suffix automata. The automaton of the given texts is built once and shared by all
runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.engine.decoding.copying import CopyingDrafter
from specviz.engine.model.suffix_automaton import Match, SuffixAutomaton


class SuffixDrafter(CopyingDrafter):
    """Copies the most frequent continuation of the text's longest known suffix.

    When a run returns to an earlier round, the drafter forgets the later tokens.
    """

    def __init__(
        self, vocabulary: int, device: torch.device, texts: SuffixAutomaton | None = None
    ) -> None:
        super().__init__(vocabulary, device)
        self._texts = texts or SuffixAutomaton()
        self._own = SuffixAutomaton()
        self._own_text: list[int] = []
        self._in_texts = [Match()]  # in the given texts: matches before the text, after each token

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """If the run returned to an earlier round, index its text again without the later tokens.

        This happens outside timed rounds.
        """
        del kept
        if valid < len(self._own_text):
            del self._own_text[valid:], self._in_texts[valid + 1 :]
            self._own = SuffixAutomaton([self._own_text])

    def _read(self, history: Sequence[int]) -> None:
        self.settle(len(history))
        for token in history[len(self._own_text) :]:
            self._own_text.append(token)
            self._own.append(token)
            self._in_texts.append(self._texts.advanced(self._in_texts[-1], token))

    def _continuation(self, history: Sequence[int], count: int) -> list[int]:
        del history  # ``_read`` has read the whole history
        own, other = self._own.repeat, self._in_texts[-1]
        copied: list[int] = []
        while len(copied) < count:
            own, other = self._own.followed(own), self._texts.followed(other)
            if max(own.length, other.length) <= 2 * len(copied):
                break  # the match has no more tokens of the text than candidates
            token = self._most_frequent_next(own, other)
            copied.append(token)
            own, other = self._own.advanced(own, token), self._texts.advanced(other, token)
        return copied

    def _most_frequent_next(self, own: Match, other: Match) -> int:
        """Return the token that most often follows the longer match.

        ``own`` is the match in the run's text, and ``other`` is the match in the given texts. If
        both are equally long, occurrences in all texts count.
        """
        if own.length != other.length:
            longer = own.length > other.length
            return self._own.favourite(own) if longer else self._texts.favourite(other)

        def weight(token: int) -> tuple[int, int, int]:
            here, place = self._own.weight(own, token)
            there, other_place = self._texts.weight(other, token)
            return here + there, place, other_place

        return max({*self._own.followers(own), self._texts.favourite(other)}, key=weight)
