"""Plain decoding by the target on the device, one token per step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch

from specviz.engine.decoding.judging import row_at
from specviz.engine.decoding.sampling import EXTRA_SLOT, Sampler, Uniforms
from specviz.engine.graphed.playback import Playback, Stage
from specviz.engine.graphed.rounds import AHEAD
from specviz.engine.graphed.text_state import TextState
from specviz.engine.model.static_step import StaticStep
from specviz.record.run_config import RunConfig


class SingleStep:
    """The stage (see ``playback.py``) that decodes one token, for one sampling configuration.

    By default, the stage appends the drawn token. After ``follow_text(True)``, the stage discards
    the drawn token and appends the next token of the text in ``state``.
    """

    def __init__(
        self, target: StaticStep, state: TextState, config: RunConfig, playback: Playback
    ) -> None:
        self.drawn = torch.zeros(1, dtype=torch.int64, device=target.device)
        self.target = target
        self.state = state
        self.playback = playback
        self._sampler = Sampler(config)
        self._tape = torch.zeros(state.rows, device=target.device)
        self._known = torch.zeros((), dtype=torch.bool, device=target.device)
        self._stages: dict[int, Stage] = {}

    def write_tape(self, uniforms: np.ndarray) -> None:
        self._tape[: len(uniforms)].copy_(torch.from_numpy(uniforms))

    def follow_text(self, known: bool) -> None:
        """Set which token each step appends.

        If ``known``, it is the next token of the text; otherwise, it is the drawn token.
        """
        self._known.fill_(known)

    def stage(self, seen: int) -> Stage:
        """Return the stage that decodes a token and attends to ``seen`` cache rows."""
        if seen not in self._stages:
            counters = self.state.counters
            self._stages[seen] = self.playback.capture(lambda: self._step(seen), counters)
        return self._stages[seen]

    def _step(self, seen: int) -> None:
        state = self.state
        logits = self.target.feed_at(state.ending(1), state.length - 1, seen, 1)
        drawn = self._sampler.next_token(logits, lambda: row_at(self._tape, state.index)[None])
        self.drawn.copy_(drawn)
        known_token = state.tokens.index_select(0, state.length[None])
        one = torch.ones_like(state.length)
        state.append(torch.where(self._known, known_token, drawn), one)
        state.index.add_(1)


class GraphedTarget:
    """Decodes with the target alone on the device, one captured step per token.

    Implements ``device_lanes.TargetLane``.
    """

    def __init__(self, single: SingleStep, prompt_ids: Sequence[int], config: RunConfig) -> None:
        self._single = single
        self._target, self._state, self._playback = single.target, single.state, single.playback
        self._length = 0  # tokens in the cache
        self._ahead: deque[Callable[[], list[float]]] = deque()
        single.write_tape(_uniforms(config, self._state.rows))
        began = self._playback.mark()
        self.read(prompt_ids[:-1])
        self.prefill = self._playback.between(began, self._playback.mark())

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
            self._set_tokens([last], index)
            self._single.follow_text(False)
        while len(self._ahead) < AHEAD:
            self._launch(self._stage(self._length + len(self._ahead)))
        self._length += 1
        return int(self._ahead.popleft()()[0])

    def timed(self, token_ids: Sequence[int], index: int) -> tuple[float, ...]:
        self._set_tokens(token_ids, index)
        self._single.follow_text(True)
        stages = [self._stage(self._length + number) for number in range(len(token_ids))]
        marks = [self._playback.mark()]
        for stage in stages:
            self._launch(stage)
            marks.append(self._playback.mark())
            if len(self._ahead) == AHEAD:  # wait for the draw, as in plain decoding
                self._ahead.popleft()()
        self._ahead.clear()
        self._length += len(token_ids)
        return tuple(self._playback.between(*each) for each in pairwise(marks))

    def forget(self, count: int) -> None:
        self._ahead.clear()
        self._length -= count

    def _set_tokens(self, token_ids: Sequence[int], index: int) -> None:
        """Write these tokens to the text after the cached tokens.

        The next step feeds the first of these tokens.
        """
        self._ahead.clear()
        self._state.write(token_ids, self._length)
        self._state.set_position(self._length + 1, index)

    def _launch(self, stage: Stage) -> None:
        stage()
        self._ahead.append(self._playback.fetch(self._single.drawn))

    def _stage(self, length: int) -> Stage:
        """Return the stage that feeds a token after ``length`` tokens in the cache."""
        return self._single.stage(self._state.seen(length + 1))


def _uniforms(config: RunConfig, rows: int) -> np.ndarray:
    """Return the uniforms of plain decoding, one per step."""
    drawn = Uniforms(config.seed)
    steps = min(rows, config.max_new_tokens + AHEAD)
    return np.array([drawn.of_round(index, 0)[EXTRA_SLOT] for index in range(steps)], np.float32)
