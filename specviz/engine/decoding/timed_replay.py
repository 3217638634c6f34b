"""Timed replay of a finished run: both lanes over any range of its rounds.

The speculative lane plays the rounds again; since the seed decides them they are the same. The
target alone is forced along their tokens: each step does what plain decoding does, its draw and
the wait for it included, but the drawn token is discarded and the known one is fed. Both lanes go
back and forth without reading the prompt again. Uncounted steps before every pass bring the lane's
data back into the processor caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specviz.engine.decoding.plain_decoding import target_lane
from specviz.engine.decoding.speculation import speculate
from specviz.engine.model.memory import memory_errors
from specviz.engine.model.pair import Pair
from specviz.record.trace import DraftingCosts, Round, RunConfig

_WARM_UP = 0.01  # seconds before every pass; at least a step, or a round


class TimedReplay:
    """Replays ranges of rounds of a finished run.

    ``prefill`` is the time the target alone took to read the prompt; ``costs`` are those with which
    the run decided how many candidates to draft.
    """

    def __init__(
        self,
        pair: Pair,
        prompt_ids: Sequence[int],
        config: RunConfig,
        rounds: Sequence[Round],
        costs: DraftingCosts | None = None,
    ) -> None:
        self._pair = pair
        self._rounds = tuple(rounds)
        emitted = [token for entry in rounds for token in entry.emitted]
        self._text = [*prompt_ids, *emitted]
        self._num_prompt = len(prompt_ids)
        settings = replace(config, record=False, chat=False)
        self._run = speculate(pair, prompt_ids, settings, costs=costs)
        with memory_errors(pair.device):
            self._lane = target_lane(pair, prompt_ids, config, len(self._text) + 1)
        self.prefill = self._lane.prefill

    def alone(self, first: int, last: int) -> tuple[float, ...]:
        """Return the target's seconds for each token of the rounds ``first`` to ``last - 1``."""
        start = self._rounds[first].context_length
        end = start + sum(len(entry.emitted) for entry in self._rounds[first:last])
        with memory_errors(self._pair.device):
            self._bring_to(start)
            fed = self._text[start - 1 : end - 1]
            warming = 0.0
            while warming < _WARM_UP:
                warming += sum(self._lane.timed(fed[:1], start - self._num_prompt))
                self._lane.forget(1)  # one at a time: the context may have room for no more
            return self._lane.timed(fed, start - self._num_prompt)

    def speculative(self, first: int, last: int) -> tuple[float, ...]:
        """Return the seconds of each of the rounds ``first`` to ``last - 1``."""
        while self._run.index < first:
            self._play()
        warming = 0.0
        while warming < _WARM_UP:
            self._go_to(first)
            warming += self._play()
        self._go_to(first)
        return tuple(self._play() for _ in range(first, last))

    def _go_to(self, first: int) -> None:
        if self._run.index != first:
            self._run.go_back(self._rounds[first])

    def _play(self) -> float:
        known = self._rounds[self._run.index]
        entry = next(self._run)
        assert entry.emitted == known.emitted, "the same seed gave another round"
        return entry.times.decode

    def _bring_to(self, start: int) -> None:
        """Bring the target's cache to every token before ``start`` but the last."""
        if self._lane.length >= start:
            self._lane.forget(self._lane.length - start + 1)
        else:
            self._lane.read(self._text[self._lane.length : start - 1])
