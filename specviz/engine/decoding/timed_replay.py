"""Time chosen rounds of a finished run again, with speculative decoding and with the target alone.

Speculative decoding plays the rounds again; the same seed gives identical rounds. The target alone
is forced along the emitted tokens: as in plain decoding, each step draws a token and waits for the
result, but the step discards this token and feeds the emitted token. Both ways of decoding can
return to earlier rounds without reading the prompt again. Before each timed range of rounds, steps
whose time is ignored bring the data back into the processor caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specviz.engine.decoding.plain_decoding import target_lane
from specviz.engine.decoding.speculation import speculate
from specviz.engine.model.memory import memory_errors
from specviz.engine.model.pair import Pair
from specviz.record.trace import DraftingCosts, Round, RoundTimes, RunConfig

_WARM_UP = 0.01  # seconds of uncounted steps or rounds before a timed range; at least one


class TimedReplay:
    """Decodes ranges of rounds of a finished run again, and times them.

    ``prefill``: the target's prefill time when it decodes alone. ``costs``: the step costs from
    which the run computed how many candidates to draft.
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
        """Return the target's seconds for each token of these rounds, when it decodes alone.

        The rounds are ``first`` to ``last - 1``.
        """
        start = self._rounds[first].context_length
        end = start + sum(len(entry.emitted) for entry in self._rounds[first:last])
        with memory_errors(self._pair.device):
            self._bring_to(start)
            fed = self._text[start - 1 : end - 1]
            warming = 0.0
            while warming < _WARM_UP:
                warming += sum(self._lane.timed(fed[:1], start - self._num_prompt))
                self._lane.forget(1)  # one token at a time: the context may have room for only one
            return self._lane.timed(fed, start - self._num_prompt)

    def speculative(self, first: int, last: int) -> tuple[RoundTimes, ...]:
        """Return the times of each of the rounds ``first`` to ``last - 1``."""
        while self._run.index < first:
            self._play()
        warming = 0.0
        while warming < _WARM_UP:
            self._go_to(first)
            warming += self._play().decode
        self._go_to(first)
        return tuple(self._play() for _ in range(first, last))

    def _go_to(self, first: int) -> None:
        if self._run.index != first:
            self._run.go_back(self._rounds[first])

    def _play(self) -> RoundTimes:
        known = self._rounds[self._run.index]
        entry = next(self._run)
        assert entry.emitted == known.emitted, "the same seed gave a different round"
        return entry.times

    def _bring_to(self, start: int) -> None:
        """Make the target's cache hold the first ``start - 1`` tokens of the text."""
        if self._lane.length >= start:
            self._lane.forget(self._lane.length - start + 1)
        else:
            self._lane.read(self._text[self._lane.length : start - 1])
