"""Step costs of stages that are played on the device.

A stage is timed as it runs in a round: another has just been played, so the device has it waiting
while it still works, and no call of the host is in its time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specviz.engine.graphed.chain import Chain, Lines
from specviz.engine.graphed.playback import Playback, Work
from specviz.engine.graphed.static_model import StaticModel
from specviz.engine.graphed.target_decoder import GraphedTarget


class GraphedTimer:
    """See ``device_lanes.StepTimer``. A draft phase is always fed two tokens first."""

    def __init__(
        self,
        lines: Lines,
        chain_of: Callable[[int], Chain],
        alone: GraphedTarget,
        playback: Playback,
        token_ids: Sequence[int],
        context: int,
    ) -> None:
        """``chain_of``: the stages of a γ."""
        self._lines = lines
        self._chain_of = chain_of
        self._alone = alone
        self._playback = playback
        self._ids = list(token_ids)
        self._context = context
        lines.state.write(self._ids, 0)

    @property
    def drafts(self) -> bool:
        return True

    @property
    def grows_trees(self) -> bool:
        return False

    def tree_round(self) -> tuple[float, float]:
        raise AssertionError("trees are not captured")

    @property
    def readers(self) -> Sequence[Callable[[Sequence[int]], None]]:
        return [self._alone.read, *map(self._reader, (self._lines.target, self._lines.draft))]

    def _reader(self, model: StaticModel) -> Callable[[Sequence[int]], None]:
        read = 0

        def feed(token_ids: Sequence[int]) -> None:
            nonlocal read
            model.prefill(self._lines.state.tokens[read : read + len(token_ids)], read)
            read += len(token_ids)
            self._playback.wait()

        return feed

    def plain_step(self) -> float:
        pending = self._ids[self._context]
        _, seconds = self._alone.timed([pending, pending], 0)
        self._alone.forget(2)
        return seconds

    def draft_phase(self, tokens: int, count: int) -> float:
        del tokens
        return self._second(self._chain_of(count).draft, count)

    def verification(self, tokens: int) -> float:
        chain = self._chain_of(tokens - 1)
        chain.propose(self._ids[self._context + 1 :][: tokens - 1])
        return self._second(chain.verify, tokens - 1)

    def _second(self, stage: Callable[[int], Work], gamma: int) -> float:
        """Of two in a row, from the same place of the text; the stage may be captured there."""
        state, length = self._lines.state, self._context + 1
        state.state_at(length, 0)
        work = stage(state.seen(length + gamma))
        work()
        state.state_at(length, 0)
        began = self._playback.mark()
        work()
        return self._playback.between(began, self._playback.mark())
