"""Which rounds the player still needs.

A round is sent once. If a message is lost, the player sees the gap and wishes for all rounds from
there on, which are then sent again (go-back-N).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the player last asked for: the rounds of ``run`` from ``start`` on."""

    run: str | None = None
    start: int = 0
    number: int = 0  # another number is another wish


@dataclass(slots=True)
class SentRounds:
    """How far one player has been sent the run that it shows."""

    run: str | None = None
    sent: int = 0
    heard: int = 0  # the number of the last wish that was granted

    def next_start(self, run: str, total: int, wish: Wish) -> int:
        """The first round of the next message; its last one is the run's last, number ``total``."""
        start = self.sent if run == self.run else 0
        if wish.number != self.heard:
            self.heard = wish.number
            start = min(wish.start, total) if wish.run == run else 0
        self.run, self.sent = run, total
        return start
