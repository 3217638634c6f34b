"""The target by itself on the device, a token a step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch

from specviz.engine.decoding.judging import row_at
from specviz.engine.decoding.sampling import EXTRA_SLOT, Sampler, Uniforms
from specviz.engine.graphed.playback import Playback, Work
from specviz.engine.graphed.rounds import AHEAD
from specviz.engine.graphed.static_model import StaticModel
from specviz.engine.graphed.text_state import TextState
from specviz.record.run_config import RunConfig


class SingleStep:
    """The stage of one token, for one way to sample. It appends what it drew, unless the text goes
    on already."""

    def __init__(
        self, target: StaticModel, state: TextState, config: RunConfig, playback: Playback
    ) -> None:
        self.drawn = torch.zeros(1, dtype=torch.int64, device=target.device)
        self._target = target
        self._state = state
        self._sampler = Sampler(config)
        self._playback = playback
        self._tape = torch.zeros(state.rows, device=target.device)
        self._known = torch.zeros((), dtype=torch.bool, device=target.device)
        self._works: dict[int, Work] = {}

    def write_tape(self, uniforms: np.ndarray) -> None:
        self._tape[: len(uniforms)].copy_(torch.from_numpy(uniforms))

    def go_along(self, known: bool) -> None:
        """Whether the text's next token is known."""
        self._known.fill_(known)

    def play(self, seen: int) -> Work:
        if seen not in self._works:
            place = self._state.place
            self._works[seen] = self._playback.capture(lambda: self._step(seen), place)
        return self._works[seen]

    def _step(self, seen: int) -> None:
        state = self._state
        logits = self._target.feed(state.ending(1), state.length - 1, seen, 1)
        drawn = self._sampler.next_token(logits, lambda: row_at(self._tape, state.index)[None])
        self.drawn.copy_(drawn)
        there = state.tokens.index_select(0, state.length[None])
        one = torch.ones_like(state.length)
        state.append(torch.where(self._known, there, drawn), one)
        state.index.add_(1)


class GraphedTarget:
    """See ``device_lanes.TargetLane``."""

    def __init__(
        self,
        target: StaticModel,
        state: TextState,
        single: SingleStep,
        playback: Playback,
        prompt_ids: Sequence[int],
        config: RunConfig,
    ) -> None:
        self._target = target
        self._state = state
        self._single = single
        self._playback = playback
        self._length = 0  # of the cache
        self._ahead: deque[Callable[[], list[float]]] = deque()
        single.write_tape(_uniforms(config, state.rows))
        began = playback.mark()
        self.read(prompt_ids[:-1])
        self.prefill = playback.between(began, playback.mark())

    @property
    def length(self) -> int:
        return self._length

    def read(self, token_ids: Sequence[int]) -> None:
        self._ahead.clear()
        if token_ids:
            self._state.write(token_ids, self._length)
            end = self._length + len(token_ids)
            self._target.prefill(self._state.tokens[self._length : end], self._length)
            self._length = end

    def next_token(self, last: int, index: int) -> int:
        if not self._ahead:
            self._stand_before([last], index)
            self._single.go_along(False)
        while len(self._ahead) < AHEAD:
            self._launch(self._work(self._length + len(self._ahead)))
        self._length += 1
        return int(self._ahead.popleft()()[0])

    def timed(self, token_ids: Sequence[int], index: int) -> tuple[float, ...]:
        self._stand_before(token_ids, index)
        self._single.go_along(True)
        works = [self._work(self._length + number) for number in range(len(token_ids))]
        marks = [self._playback.mark()]
        for work in works:
            self._launch(work)
            marks.append(self._playback.mark())
            if len(self._ahead) == AHEAD:  # its draw is waited for, as in plain decoding
                self._ahead.popleft()()
        self._ahead.clear()
        self._length += len(token_ids)
        return tuple(self._playback.between(*each) for each in pairwise(marks))

    def forget(self, count: int) -> None:
        self._ahead.clear()
        self._length -= count

    def _stand_before(self, token_ids: Sequence[int], index: int) -> None:
        """These tokens follow what is in the cache; the first of them is fed next."""
        self._ahead.clear()
        self._state.write(token_ids, self._length)
        self._state.state_at(self._length + 1, index)

    def _launch(self, work: Work) -> None:
        work()
        self._ahead.append(self._playback.fetch(self._single.drawn))

    def _work(self, length: int) -> Work:
        """Feeds the token behind so many in the cache."""
        return self._single.play(self._state.seen(length + 1))


def _uniforms(config: RunConfig, rows: int) -> np.ndarray:
    """What plain decoding draws by, a number a step."""
    drawn = Uniforms(config.seed)
    steps = min(rows, config.max_new_tokens + AHEAD)
    return np.array([drawn.of_round(index, 0)[EXTRA_SLOT] for index in range(steps)], np.float32)
