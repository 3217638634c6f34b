"""Time the parts of rounds (captured stages) on the device, for the step-cost table.

As in a round, a timed stage is queued while the device still runs another stage. So the time
includes no host overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specviz.engine.graphed.chain import Chain, PairMemory
from specviz.engine.graphed.playback import Playback, Stage
from specviz.engine.graphed.target_decoder import GraphedTarget
from specviz.engine.model.static_step import StaticStep


class GraphedTimer:
    """Times single captured stages of both models on the device.

    Implements ``device_lanes.StepTimer``. The first step of a draft phase always feeds two tokens.
    """

    def __init__(
        self,
        memory: PairMemory,
        chain_of: Callable[[int], Chain],
        target: GraphedTarget,
        playback: Playback,
        token_ids: Sequence[int],
        context: int,
    ) -> None:
        """``chain_of`` takes γ and returns the stages of a round with γ candidates."""
        self._memory = memory
        self._chain_of = chain_of
        self._target = target
        self._playback = playback
        self._ids = list(token_ids)
        self._context = context
        memory.state.write(self._ids, 0)

    @property
    def drafts(self) -> bool:
        return True

    @property
    def drafts_trees(self) -> bool:
        return False

    def tree_round(self) -> tuple[float, float]:
        raise AssertionError("trees are not captured")

    @property
    def readers(self) -> Sequence[Callable[[Sequence[int]], None]]:
        return [self._target.read, *map(self._reader, (self._memory.target, self._memory.draft))]

    def _reader(self, model: StaticStep) -> Callable[[Sequence[int]], None]:
        read = 0

        def feed(token_ids: Sequence[int]) -> None:
            nonlocal read
            model.prefill(self._memory.state.tokens[read : read + len(token_ids)], read)
            read += len(token_ids)
            self._playback.wait()

        return feed

    def plain_step(self) -> float:
        pending = self._ids[self._context]
        _, seconds = self._target.timed([pending, pending], 0)
        self._target.forget(2)
        return seconds

    def draft_phase(self, tokens: int, count: int) -> float:
        del tokens
        return self._second_of_two(self._chain_of(count).draft, count)

    def verification(self, tokens: int) -> float:
        chain = self._chain_of(tokens - 1)
        chain.propose(self._ids[self._context + 1 :][: tokens - 1])
        return self._second_of_two(chain.verify, tokens - 1)

    def _second_of_two(self, stage: Callable[[int], Stage], gamma: int) -> float:
        """Run a captured stage twice from the same position; return the second run's seconds."""
        state, length = self._memory.state, self._context + 1
        state.set_position(length, 0)
        captured = stage(state.seen(length + gamma))
        captured()
        state.set_position(length, 0)
        began = self._playback.mark()
        captured()
        return self._playback.between(began, self._playback.mark())
