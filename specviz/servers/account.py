"""The counts that an engine reports about one answer, checked as they arrive.

An answer may not have more tokens than requested, a total may not fall, and an engine may not
accept more candidates than it drafted. An answer that breaks one of these rules ends with an error;
the rounds before the error are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.errors import ServerError
from specviz.record.limits import MAX_DRAFTED
from specviz.record.server_run import ServerInfo, ServerSettings, ServerTotals

_CHARACTERS_A_TOKEN = 1000
_CHARACTERS = 10_000  # allowed besides, for any number of tokens
_EVENTS_A_TOKEN = 8
_EVENTS = 10_000


@dataclass(slots=True)
class Account:
    """The numbers of rounds, candidates and tokens in one answer so far."""

    info: ServerInfo
    settings: ServerSettings
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    tokens: int = 0  # as the engine reports their number
    received: int = 0  # tokens counted from the events
    characters: int = 0
    events: int = 0

    def add_event(self) -> None:
        self.events += 1
        if self.events > _EVENTS + _EVENTS_A_TOKEN * self.settings.max_new_tokens:
            raise self._wrong(f"has sent {self.events:,} events for one answer")

    def add(self, tokens: int, text: str) -> None:
        """Add the tokens and the text of one event."""
        self.received += tokens
        self.characters += len(text)
        self._check_requested(self.received)
        most = _CHARACTERS + _CHARACTERS_A_TOKEN * self.settings.max_new_tokens
        if self.characters > most:
            raise self._wrong(f"has sent more than {most:,} characters for one answer")

    def update(
        self,
        *,
        rounds: int | None = None,
        drafted: int | None = None,
        accepted: int | None = None,
        tokens: int | None = None,
    ) -> None:
        """Update the totals and check them; None leaves a total unchanged."""
        self.rounds = self._grown("rounds", self.rounds, rounds)
        self.drafted = self._grown("drafted candidates", self.drafted, drafted)
        self.accepted = self._grown("accepted candidates", self.accepted, accepted)
        self.tokens = self._grown("tokens", self.tokens, tokens)
        self._check_requested(self.tokens)
        most = self.settings.max_new_tokens
        if self.rounds > most:
            raise self._wrong(f"reports {self.rounds:,} rounds; {most:,} tokens were requested")
        if self.drafted > MAX_DRAFTED * most:
            raise self._wrong(
                f"reports {self.drafted:,} candidates; {most:,} tokens were requested"
            )

    def check_accepted(self) -> None:
        """Raise if ``accepted`` exceeds ``drafted``; call this after both totals are updated."""
        if self.accepted > self.drafted:
            raise self._wrong(
                f"reports {self.accepted:,} accepted candidates, but only {self.drafted:,} drafted"
            )

    def check_round(self, drafted: int, accepted: int) -> None:
        if not 0 <= accepted <= drafted <= MAX_DRAFTED:
            raise self._wrong(
                f"reports a round with {drafted:,} drafted and {accepted:,} accepted candidates"
            )

    def check_sum(self, what: str, total: int | None, counts: Sequence[int]) -> None:
        if total is not None and total != sum(counts):
            found = sum(counts)
            raise self._wrong(f"reports {total:,} {what} candidates, but {found:,} in its steps")

    def check_same(self, what: str, before: Sequence[object], now: Sequence[object]) -> None:
        """Raise if ``now`` does not begin with ``before``, which the engine sent earlier."""
        if now[: len(before)] != before:
            raise self._wrong(f"changes {what} that it sent earlier")

    def checked(self, totals: ServerTotals) -> ServerTotals:
        """Check the totals that an answer reports, store them as the counts, and return them."""
        self.update(
            rounds=totals.rounds, drafted=totals.drafted, accepted=totals.accepted,
            tokens=totals.tokens,
        )  # fmt: skip
        if totals.drafted is not None:
            self.check_accepted()
        return totals

    def _grown(self, what: str, before: int, now: int | None) -> int:
        if now is not None and now < before:
            raise self._wrong(f"reports {now:,} {what}, but reported {before:,} before")
        return before if now is None else now

    def _check_requested(self, tokens: int) -> None:
        if tokens > self.settings.max_new_tokens:
            raise self._wrong(
                f"reports {tokens:,} tokens; {self.settings.max_new_tokens:,} were requested"
            )

    def _wrong(self, what: str) -> ServerError:
        return ServerError(
            f"{self.info.address} {what}. The answer ends here.",
            remedy="Check that a serving engine runs at this address.",
        )
