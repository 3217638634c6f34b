"""Every run of tokens in some texts: an automaton that tells what mostly followed the same words.

Texts may be added token by token while it is asked, or once, and then be shared by many runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from specviz.record.limits import MAX_GAMMA

LONGEST = 2 * MAX_GAMMA  # words of a run; more are never asked for


class Match(NamedTuple):
    """The longest run that ends what was read and is in the texts: where it stands in them."""

    state: int = 0
    length: int = 0


class SuffixAutomaton:
    """Every run of at most ``LONGEST`` tokens in its texts, how often it is there, and what follows
    it.

    A state is of the runs that end at the same places; its link leads to the longest run at the end
    of these that ends at more places. Tokens are added one by one, in time that depends on how many
    such links there are below ``LONGEST``, not on the size of the texts. Longer runs are there,
    too, but beyond one token more, for what follows the longest, nothing is counted of them.
    """

    def __init__(self, texts: Iterable[Sequence[int]] = ()) -> None:
        self._after: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]  # of the longest of its runs
        self._count = [0]
        self._latest = [0]
        self._favourite = [-1]  # the token that follows most often
        self._places = 0
        self._last = 0
        self._end = Match()  # the last text's last tokens, LONGEST and one more
        for text in texts:
            self._last, self._end = 0, Match()
            for token in text:
                self.append(token)

    @property
    def repeat(self) -> Match:
        """The longest run at the end of the last text that is somewhere else, too."""
        state = max(0, self._link[self._last])
        if self._length[state] <= LONGEST:
            return Match(state, self._length[state])
        return Match(self._holding(self._end.state, LONGEST), LONGEST)

    def append(self, token: int) -> None:
        """One more token of the last text."""
        self._places += 1
        self._last = self._grown(self._last, token)
        before = self._holding(*self._end)  # growing may have set shorter runs apart
        self._end = self._longer(before, self._end.length, token, LONGEST + 1)
        state = self._end.state
        while state:
            self._count[state] += 1
            self._latest[state] = self._places
            state = self._link[state]
        while before >= 0:  # only after these the token is one more time
            self._compare(before, token)
            before = self._link[before]

    def advanced(self, match: Match, token: int) -> Match:
        """When one more token is read."""
        state, length = match
        while token not in self._after[state]:
            if not state:
                return Match()
            state = self._link[state]
            length = self._length[state]
        return self._longer(state, length, token, LONGEST)

    def followed(self, match: Match) -> Match:
        """The longest of its suffixes that something follows."""
        state, length = match
        while state and not self._after[state]:
            state = self._link[state]
            length = self._length[state]
        return Match(state, length)

    def followers(self, match: Match) -> Iterable[int]:
        return self._after[match.state]

    def favourite(self, match: Match) -> int:
        """What follows most often; the latest of several."""
        return self._favourite[match.state]

    def weight(self, match: Match, token: int) -> tuple[int, int]:
        """How often the token follows, and the latest place."""
        state = self._after[match.state].get(token, 0)
        return self._count[state], self._latest[state]

    def _longer(self, state: int, length: int, token: int, most: int) -> Match:
        """The last tokens of that run with the token behind it, which is in the texts."""
        length = min(length + 1, most)
        return Match(self._holding(self._after[state][token], length), length)

    def _holding(self, state: int, length: int) -> int:
        """The state of the last so many tokens of a run that is at least as long."""
        while state and self._length[self._link[state]] >= length:
            state = self._link[state]
        return state

    def _compare(self, state: int, token: int) -> None:
        best = self._favourite[state]
        after = self._after[state]
        if best < 0 or self._count[after[token]] >= self._count[after[best]]:
            self._favourite[state] = token

    def _grown(self, last: int, token: int) -> int:
        """The state of the text of ``last`` with the token behind it."""
        if token in self._after[last]:
            return self._alone(last, token)
        new = self._new(self._length[last] + 1)
        state = last
        while state >= 0 and token not in self._after[state]:
            self._after[state][token] = new
            state = self._link[state]
        self._link[new] = 0 if state < 0 else self._alone(state, token)
        return new

    def _alone(self, before: int, token: int) -> int:
        """A state for the longest run of ``before`` with the token behind it, and none longer."""
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
