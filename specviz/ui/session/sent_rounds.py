"""Which rounds the player still needs.

Each round is sent once. A message may be lost where the browser takes two at once; the player
sees the gap and wishes for all from there on, and then they are sent again (go-back-N).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the player last asked for: rounds of ``run`` from ``start`` on. Wishes are numbered."""

    run: str | None = None
    start: int = 0
    number: int = 0


@dataclass(slots=True)
class SentRounds:
    """One player's place in the run that it shows."""

    run: str | None = None
    sent: int = 0
    heard: int = 0  # the number of the last wish

    def next_start(self, run: str, total: int, wish: Wish) -> int:
        """The first round of the next message, which goes on to ``total``."""
        start = self.sent if run == self.run else 0
        if wish.number != self.heard:
            self.heard = wish.number
            start = min(wish.start, total) if wish.run == run else 0
        self.run, self.sent = run, total
        return start
