"""Suffix lookup (SuffixDecoding, arXiv 2411.04975): copies what most often followed a suffix.

The suffix is the longest one of the text that occurred before with a continuation, in the text
itself or in texts given in advance, whose automaton is built once and shared by runs. The most
frequent continuation is proposed; among equally frequent ones the latest, the run's own text being
later than all others. Each candidate counts as read when the next is looked up, and its match must
contain more tokens of the text than candidates. So a match of n tokens gives n candidates, and a
cyclic text gives as many as requested. Matches are limited to twice the most candidates of a round,
which bounds the cost of a token repeated over and over.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.engine.decoding.copying import CopyingDrafter
from specviz.engine.model.suffix_automaton import Match, SuffixAutomaton


class SuffixDrafter(CopyingDrafter):
    """Copies what most often followed the longest suffix of the text.

    A run may go back: later tokens are then forgotten and read again.
    """

    def __init__(
        self, vocabulary: int, device: torch.device, texts: SuffixAutomaton | None = None
    ) -> None:
        super().__init__(vocabulary, device)
        self._texts = texts or SuffixAutomaton()
        self._own = SuffixAutomaton()
        self._own_text: list[int] = []
        self._in_texts = [Match()]  # before the first token, and after each

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """Rebuild the automaton if the run went back, which happens only while no clock runs."""
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
        del history  # all of it is read
        own, other = self._own.repeat, self._in_texts[-1]
        copied: list[int] = []
        while len(copied) < count:
            own, other = self._own.followed(own), self._texts.followed(other)
            if max(own.length, other.length) <= 2 * len(copied):
                break  # the match includes the candidates
            token = self._follows_mostly(own, other)
            copied.append(token)
            own, other = self._own.advanced(own, token), self._texts.advanced(other, token)
        return copied

    def _follows_mostly(self, own: Match, other: Match) -> int:
        """Return the favourite after the longer match, or after both if they are equal."""
        if own.length != other.length:
            longer = own.length > other.length
            return self._own.favourite(own) if longer else self._texts.favourite(other)

        def weight(token: int) -> tuple[int, int, int]:
            here, place = self._own.weight(own, token)
            there, other_place = self._texts.weight(other, token)
            return here + there, place, other_place

        return max({*self._own.followers(own), self._texts.favourite(other)}, key=weight)
