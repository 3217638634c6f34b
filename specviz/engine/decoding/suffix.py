"""Suffix lookup (SuffixDecoding, 2411.04975): copies what mostly followed the same words.

The words are the longest suffix of the text that was followed by something before: in the text
itself, or in texts handed in, whose automaton is built once and may be shared by many runs. What
followed most often is proposed; of what followed equally often, the latest, the run's own text
coming after all others. Each candidate counts as read when the next is looked up. It needs to
follow more words of the text than candidates, so that a match of n words gives n candidates, and
a text that goes in circles gives as many as are asked for. Of a longer run the last words are
looked up, twice as many as a round may have candidates: so a token that is repeated over and over
costs no more than that.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.engine.decoding.proposal import Proposal, certain
from specviz.engine.decoding.sampling import Draws, on_one_thread
from specviz.engine.model.suffix_automaton import Match, SuffixAutomaton


class SuffixDrafter:
    """Certain of itself, as prompt lookup is: its distributions are one-hots, and often it finds
    nothing. A run may go back: then what comes later is forgotten, and read anew."""

    wants_hidden = False

    def __init__(
        self, vocabulary: int, device: torch.device, texts: SuffixAutomaton | None = None
    ) -> None:
        self._vocabulary = vocabulary
        self._device = device
        self._texts = texts or SuffixAutomaton()
        self._own = SuffixAutomaton()
        self._read: list[int] = []
        self._in_texts = [Match()]  # before the first token, and after each

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        self._read_on(prompt_ids)

    @on_one_thread
    def propose(
        self,
        history: Sequence[int],
        count: int,
        draws: Draws | None,
        hidden: torch.Tensor | None,
    ) -> Proposal:
        del draws, hidden
        self.settle(len(history))
        self._read_on(history)
        return certain(self._continuation(count), self._vocabulary, self._device)

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """Between rounds the text only grows; a run that goes back does so while no clock runs."""
        del kept
        if valid < len(self._read):
            del self._read[valid:], self._in_texts[valid + 1 :]
            self._own = SuffixAutomaton([self._read])

    def _read_on(self, history: Sequence[int]) -> None:
        for token in history[len(self._read) :]:
            self._read.append(token)
            self._own.append(token)
            self._in_texts.append(self._texts.advanced(self._in_texts[-1], token))

    def _continuation(self, count: int) -> list[int]:
        own, other = self._own.repeat, self._in_texts[-1]
        copied: list[int] = []
        while len(copied) < count:
            own, other = self._own.followed(own), self._texts.followed(other)
            if max(own.length, other.length) <= 2 * len(copied):
                break  # the match holds the candidates, too
            token = self._follows_mostly(own, other)
            copied.append(token)
            own, other = self._own.advanced(own, token), self._texts.advanced(other, token)
        return copied

    def _follows_mostly(self, own: Match, other: Match) -> int:
        """After the longer match, or after both if they are the same words."""
        if own.length != other.length:
            longer = own.length > other.length
            return self._own.favourite(own) if longer else self._texts.favourite(other)

        def weight(token: int) -> tuple[int, int, int]:
            here, place = self._own.weight(own, token)
            there, other_place = self._texts.weight(other, token)
            return here + there, place, other_place

        return max({*self._own.followers(own), self._texts.favourite(other)}, key=weight)
