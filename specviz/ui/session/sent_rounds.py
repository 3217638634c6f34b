"""Record of the rounds that were sent to a player, and the rounds that the player still needs.

Each round is sent once. If a message is lost, the player notices that rounds are missing and
requests all rounds from the first missing round on. These are then sent again (go-back-N).
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.values import Value


class RoundRequest(Value):
    """The player's last request: the rounds of ``run`` from ``start`` on."""

    run: str | None = None
    start: int = 0
    number: int = 0  # a new number is a new request


@dataclass(slots=True)
class SentRounds:
    """How many rounds of the shown run have been sent to one player."""

    run: str | None = None
    sent: int = 0
    handled: int = 0  # number of the last request that was answered

    def next_start(self, run: str, total: int, request: RoundRequest) -> int:
        """Return the index of the first round to send, and record rounds up to ``total`` as sent.

        Args:
            run: The id of the shown run.
            total: The number of the run's rounds so far.
            request: The player's last request.
        """
        start = self.sent if run == self.run else 0
        if request.number != self.handled:
            self.handled = request.number
            start = min(request.start, total) if request.run == run else 0
        self.run, self.sent = run, total
        return start
