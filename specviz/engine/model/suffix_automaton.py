"""A suffix automaton over texts: finds which token most often followed a sequence of tokens.

The last text may grow token by token between queries. Many runs may share one automaton if none of
them appends to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from specviz.record.limits import MAX_GAMMA

LONGEST = 2 * MAX_GAMMA  # tokens of the longest sequence that is queried


class Match(NamedTuple):
    """The longest suffix of a sequence that occurs in the texts: its automaton state and length."""

    state: int = 0
    length: int = 0


class SuffixAutomaton:
    """All sequences of tokens in the texts, with how often each occurs and what follows it.

    A state represents all sequences that end at the same positions. The state's link leads to the
    longest suffix of these sequences that ends at more positions. A queried sequence has at most
    ``LONGEST`` tokens. Occurrences are therefore counted only for sequences of at most ``LONGEST``
    + 1 tokens: a queried sequence and the next token. So appending a token updates at most
    ``LONGEST`` + 1 counts, whatever the size of the texts.
    """

    def __init__(self, texts: Iterable[Sequence[int]] = ()) -> None:
        self._after: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]  # of the state's longest sequence
        self._count = [0]
        self._latest = [0]
        self._favourite = [-1]  # the token that follows most often
        self._places = 0
        self._last = 0
        self._end = Match()  # the last LONGEST + 1 tokens of the last text
        for text in texts:
            self._last, self._end = 0, Match()
            for token in text:
                self.append(token)

    @property
    def repeat(self) -> Match:
        """Return the longest suffix of the last text that also occurs elsewhere in the texts.

        The suffix has at most ``LONGEST`` tokens.
        """
        state = max(0, self._link[self._last])
        if self._length[state] <= LONGEST:
            return Match(state, self._length[state])
        return Match(self._state_of_length(self._end.state, LONGEST), LONGEST)

    def append(self, token: int) -> None:
        """Append a token to the last text."""
        self._places += 1
        self._last = self._extended(self._last, token)
        before = self._state_of_length(*self._end)  # extending may have split the state
        self._end = self._extended_match(before, self._end.length, token, LONGEST + 1)
        state = self._end.state
        while state:
            self._count[state] += 1
            self._latest[state] = self._places
            state = self._link[state]
        while before >= 0:  # only after these states did ``token`` become more frequent
            self._compare(before, token)
            before = self._link[before]

    def advanced(self, match: Match, token: int) -> Match:
        """Append ``token`` to the match, and return the new match.

        The new match is the longest suffix that occurs in the texts.
        """
        if not self._places:  # no texts, so nothing matches
            return match
        state, length = match
        while token not in self._after[state]:
            if not state:
                return Match()
            state = self._link[state]
            length = self._length[state]
        return self._extended_match(state, length, token, LONGEST)

    def followed(self, match: Match) -> Match:
        """Return the longest suffix of the match that has a next token in the texts."""
        state = match.state
        if not state or self._after[state]:
            return match
        while state and not self._after[state]:
            state = self._link[state]
        return Match(state, self._length[state])

    def followers(self, match: Match) -> Iterable[int]:
        return self._after[match.state]

    def favourite(self, match: Match) -> int:
        """Return the token that most often follows the match; -1 if no token follows.

        If several tokens follow equally often, return the token that followed last.
        """
        return self._favourite[match.state]

    def weight(self, match: Match, token: int) -> tuple[int, int]:
        """Return how often the token follows the match, and the latest position where it does."""
        state = self._after[match.state].get(token, 0)
        return self._count[state], self._latest[state]

    def _extended_match(self, state: int, length: int, token: int, most: int) -> Match:
        """Return the match followed by ``token``, truncated to the last ``most`` tokens."""
        length = min(length + 1, most)
        return Match(self._state_of_length(self._after[state][token], length), length)

    def _state_of_length(self, state: int, length: int) -> int:
        """Return the state of the last ``length`` tokens of a sequence in ``state``."""
        while state and self._length[self._link[state]] >= length:
            state = self._link[state]
        return state

    def _compare(self, state: int, token: int) -> None:
        best = self._favourite[state]
        after = self._after[state]
        if best < 0 or self._count[after[token]] >= self._count[after[best]]:
            self._favourite[state] = token

    def _extended(self, last: int, token: int) -> int:
        """Extend the text that ends in state ``last`` by the token; return the new state."""
        if token in self._after[last]:
            return self._split_off(last, token)
        new = self._new(self._length[last] + 1)
        state = last
        while state >= 0 and token not in self._after[state]:
            self._after[state][token] = new
            state = self._link[state]
        self._link[new] = 0 if state < 0 else self._split_off(state, token)
        return new

    def _split_off(self, before: int, token: int) -> int:
        """Return the state of this sequence: the longest sequence in ``before``, then ``token``.

        If this state does not exist, create it.
        """
        there = self._after[before][token]
        if self._length[there] == self._length[before] + 1:
            return there
        clone = self._new(self._length[before] + 1)
        self._after[clone].update(self._after[there])
        for values in (self._link, self._count, self._latest, self._favourite):
            values[clone] = values[there]
        self._link[there] = clone
        while before >= 0 and self._after[before].get(token) == there:
            self._after[before][token] = clone
            before = self._link[before]
        return clone

    def _new(self, length: int) -> int:
        self._after.append({})
        self._link.append(-1)
        self._length.append(length)
        self._count.append(0)
        self._latest.append(0)
        self._favourite.append(-1)
        return len(self._after) - 1
