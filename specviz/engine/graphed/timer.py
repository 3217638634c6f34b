"""Step costs of stages that are played on the device.

A stage is timed as it runs in a round: another has just been played, so the device has it waiting
while it still works, and no call of the host is in its time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specviz.engine.graphed.alone import GraphedTarget
from specviz.engine.graphed.chain import Chain, Lines
from specviz.engine.graphed.playback import Playback, Work


class GraphedTimer:
    """See ``device_lanes.StepTimer``. A draft phase is always fed two tokens first."""

    def __init__(
        self,
        lines: Lines,
        chain_of: Callable[[int], Chain],
        alone: GraphedTarget,
        playback: Playback,
        seen: Callable[[int], int],
        token_ids: Sequence[int],
        context: int,
    ) -> None:
        """``chain_of``: the stages of a γ."""
        self._lines = lines
        self._chain_of = chain_of
        self._alone = alone
        self._playback = playback
        self._seen = seen
        self._ids = list(token_ids)
        self._context = context
        self._read = 0
        lines.state.write(self._ids, 0)

    def read(self, token_ids: Sequence[int]) -> None:
        self._alone.read(token_ids)
        ids = self._lines.state.tokens[self._read : self._read + len(token_ids)]
        for model in (self._lines.target, self._lines.draft):
            model.prefill(ids, self._read)
        self._read += len(token_ids)
        self._playback.wait()

    def plain_step(self) -> float:
        pending = self._ids[self._context]
        _, seconds = self._alone.timed([pending, pending], 0)
        self._alone.forget(2)
        return seconds

    def draft_phase(self, tokens: int, count: int) -> float:
        del tokens
        return self._second(self._chain_of(count).draft(self._seen(self._context + 1 + count)))

    def verification(self, tokens: int) -> float:
        chain = self._chain_of(tokens - 1)
        chain.propose(self._ids[self._context + 1 :][: tokens - 1])
        return self._second(chain.verify(self._seen(self._context + tokens)))

    def _second(self, work: Work) -> float:
        """Of two in a row, from the same place of the text."""
        marks = [self._playback.mark()]
        for _ in range(2):
            self._lines.state.stand_at(self._context + 1, 0)
            marks.append(self._playback.mark())
            work()
        marks.append(self._playback.mark())
        self._playback.wait()
        return self._playback.between(*marks[-2:])
