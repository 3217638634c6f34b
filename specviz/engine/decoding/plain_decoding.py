"""Plain decoding by the target alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch

from specviz.engine.decoding.clock import make_clock
from specviz.engine.decoding.device_lanes import TargetLane
from specviz.engine.decoding.endings import Endings, room_for
from specviz.engine.decoding.sampling import EXTRA_SLOT, Sampler, Uniforms
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.feeds import Feed, Reading, read_alone
from specviz.engine.model.memory import memory_errors
from specviz.engine.model.pair import Pair
from specviz.engine.model.read_text import read
from specviz.engine.model.steps import Step
from specviz.record.conversations import PromptLike
from specviz.record.trace import RunConfig


class PlainRun(Iterator[int]):
    """An iterator over the token ids that the target decodes; the constructor reads the prompt."""

    def __init__(self, pair: Pair, prompt: PromptLike, config: RunConfig) -> None:
        prompt_ids = encode_prompt(pair, prompt, chat=config.chat)
        capacity, self._limit = room_for(pair, prompt_ids, config)
        self._endings = Endings(pair, config, len(prompt_ids))
        self._device = pair.device
        self._history = list(prompt_ids)
        self._first = len(prompt_ids)
        self._done = False
        with memory_errors(pair.device):
            self._lane = target_lane(pair, prompt_ids, config, capacity)

    def __iter__(self) -> PlainRun:
        return self

    def __next__(self) -> int:
        length = len(self._history)
        if self.done:
            raise StopIteration
        self._done = True  # if the step fails, its cache is inconsistent: never continue
        with memory_errors(self._device):
            token = self._lane.next_token(self._history[-1], length - self._first)
        return self._append(token)

    @property
    def emitted(self) -> tuple[int, ...]:
        return tuple(self._history[self._first :])

    @property
    def done(self) -> bool:
        return self._done or len(self._history) >= self._limit

    def playing(self) -> Reading[int]:
        """Decode the next token: yield the target's pass, receive its logits, return the token."""
        lane, length = self._lane, len(self._history)
        assert isinstance(lane, PlainLane)
        assert not self.done
        self._done = True
        token = yield from lane.stepping(self._history[-1], length - self._first)
        return self._append(token)

    def _append(self, token: int) -> int:
        output = self._endings.judge(self._history, (), token, self._limit - len(self._history))
        self._history.append(token)
        self._done = output.finish is not None
        return token


def decode_plainly(pair: Pair, prompt: PromptLike, config: RunConfig) -> PlainRun:
    """Return an iterator over the token ids that the target alone decodes."""
    return PlainRun(pair, prompt, config)


def target_lane(
    pair: Pair, prompt_ids: Sequence[int], config: RunConfig, capacity: int
) -> TargetLane:
    """Return a decoder for the target alone that has read all prompt tokens but the last.

    It decodes on the device if the pair supports that.
    """
    if pair.lanes is not None:
        return pair.lanes.target_lane(prompt_ids, config, capacity)
    return PlainLane(pair, prompt_ids, config, capacity)


class PlainLane:
    """Decodes with the target alone, driven step by step from the host.

    Implements ``device_lanes.TargetLane``.
    """

    def __init__(
        self, pair: Pair, prompt_ids: Sequence[int], config: RunConfig, capacity: int
    ) -> None:
        self._device = pair.device
        self._sampler = Sampler(config)
        self._uniforms = Uniforms(config.seed)
        self._target: Step = pair.target_step(capacity, prompt_ids)
        clock = make_clock(self._device)
        clock.start()
        read(self._target, prompt_ids[:-1])
        clock.mark()
        (self.prefill,) = clock.seconds()

    @property
    def length(self) -> int:
        return self._target.length

    def read(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the context without drawing a token."""
        if not token_ids:
            return
        self._target.feed(torch.tensor(token_ids, device=self._target.device), 0)

    def next_token(self, last: int, index: int) -> int:
        return self.step(last, index)

    def timed(self, token_ids: Sequence[int], index: int) -> tuple[float, ...]:
        return tuple(self._timed(*each) for each in enumerate(token_ids, index))

    def _timed(self, index: int, token_id: int) -> float:
        began = time.perf_counter()
        self.step(token_id, index)
        return time.perf_counter() - began

    def step(self, token_id: int, index: int) -> int:
        return read_alone(self.stepping(token_id, index))

    @torch.inference_mode()
    def stepping(self, token_id: int, index: int) -> Reading[int]:
        """Yield a pass over ``token_id``, receive its logits, and return the next token."""
        fed = torch.tensor([token_id], device=self._target.device)
        logits = (yield Feed(step=self._target, token_ids=fed, num_logits=1)).to(self._device)
        return int(self._sampler.next_token(logits, lambda: self._uniform(index)))

    def _uniform(self, index: int) -> torch.Tensor:
        drawn = self._uniforms.of_round(index, 0)[EXTRA_SLOT : EXTRA_SLOT + 1]
        return torch.from_numpy(drawn).to(self._device)

    def forget(self, count: int) -> None:
        self._target.forget(count)
        self._target.catch_up()  # otherwise the next step would also read the pending tokens
