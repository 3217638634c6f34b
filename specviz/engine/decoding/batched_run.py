"""Run several prompts together, so that one model pass serves several runs.

Each run is an ordinary run with its own text, caches, random numbers and acceptance. The runs share
only the model passes. With compiled steps, a run always emits the text that it would emit alone.
With other steps, rounding may change the text where two tokens are almost equally likely.

The runs advance in lockstep: all draft, then one target pass verifies the candidates of all. A run
that accepts few candidates continues from its own position in the text. The other runs do not wait
for it, and no cache rows move. There is no scheduler: all runs begin together, and no new run
begins when a run ends.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import torch

from specviz.engine.decoding.endings import room_for
from specviz.engine.decoding.plain_decoding import PlainRun
from specviz.engine.decoding.speculation import Speculation
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.feeds import Feed, Reading
from specviz.engine.model.memory import memory_errors
from specviz.engine.model.pair import Pair
from specviz.engine.model.step_batch import StepBatch
from specviz.engine.model.steps import StepWeights
from specviz.errors import ConfigError, PairError
from specviz.record.conversations import PromptLike
from specviz.record.trace import Round, RunConfig

Run = TypeVar("Run", Speculation, PlainRun)
Item = TypeVar("Item", Round, int)


class _Lockstep(ABC, Iterator[tuple[Item | None, ...]], Generic[Run, Item]):
    """An iterator that advances several runs together.

    Each item is a tuple with every run's next round or token, or None if that run has ended.

    Args:
        seeds: One seed per run; if empty, every run uses the configuration's seed.
        padded: Whether all sequences have equally many rows in a pass.
    """

    def __init__(
        self,
        pair: Pair,
        prompts: Sequence[PromptLike],
        config: RunConfig,
        *,
        seeds: Sequence[int] = (),
        padded: bool = False,
    ) -> None:
        self._check(pair, config)
        if not prompts:
            raise ConfigError("A batch has no prompts.", remedy="Give at least one prompt.")
        assert len(seeds) in {0, len(prompts)}
        seeds = seeds or [config.seed] * len(prompts)
        # With records, rounds are returned late, so the runs would not advance together.
        configs = [dataclasses.replace(config, seed=seed, record=False) for seed in seeds]
        self._device = pair.device
        with memory_errors(pair.device):
            batched, self._batches = self._batched(pair, prompts, configs, padded=padded)
        self.runs = tuple(
            self._begin(batched, prompt, each)
            for prompt, each in zip(prompts, configs, strict=True)
        )

    @abstractmethod
    def _check(self, pair: Pair, config: RunConfig) -> None:
        """Raise an error if a batch cannot run this pair with this configuration."""

    @abstractmethod
    def _begin(self, pair: Pair, prompt: PromptLike, config: RunConfig) -> Run:
        """Return a run of one prompt.

        ``pair``: the pair that ``_batched`` returned. Runs of this pair share their model passes.
        """

    @abstractmethod
    def _play(self, going: Sequence[Run]) -> Sequence[Item]:
        """Decode and return the next round or token of each of these runs."""

    def __next__(self) -> tuple[Item | None, ...]:
        going = [run for run in self.runs if not run.done]
        if not going:
            raise StopIteration
        with memory_errors(self._device):
            found = dict(zip(map(id, going), self._play(going), strict=True))
        return tuple(found.get(id(run)) for run in self.runs)

    def _batched(
        self,
        pair: Pair,
        prompts: Sequence[PromptLike],
        configs: Sequence[RunConfig],
        *,
        padded: bool,
    ) -> tuple[Pair, list[StepBatch]]:
        """Return a copy of the pair for runs that share model passes, and the copy's batches.

        In the copy, a ``StepBatch`` replaces each model's weights. The draft's batch, if any, comes
        first.
        """
        capacity = max(
            room_for(pair, encode_prompt(pair, prompt, chat=config.chat), config)[0]
            for prompt, config in zip(prompts, configs, strict=True)
        )

        def batch(weights: StepWeights | None) -> StepBatch | None:
            if weights is None:
                return None
            return StepBatch(weights, pair.vocabulary, capacity, len(prompts), padded=padded)

        draft = batch(pair.draft_weights if self._drafts(configs[0]) else None)
        target = batch(pair.target_weights)
        assert target is not None
        batched = dataclasses.replace(
            pair, target_weights=target, draft_weights=draft, lanes=None, last_read=None
        )
        return batched, [target] if draft is None else [draft, target]

    def _drafts(self, config: RunConfig) -> bool:
        del config
        return False


class BatchedSpeculation(_Lockstep[Speculation, Round]):
    """Advances several speculative runs; yields a tuple with each run's next round.

    A round's times include the work for the other runs of the batch.
    """

    def _check(self, pair: Pair, config: RunConfig) -> None:
        method = config.draft_method
        if not config.is_chain or (method.has_steps and not method.needs_draft):
            raise ConfigError(
                f"A batch cannot draft with these settings (drafter={config.drafter}).",
                remedy="Use a draft model or a lookup drafter, and one chain of candidates.",
            )
        if pair.shared is not None:
            raise PairError(
                "The models of a batch must share one vocabulary.",
                remedy="Use a draft with the target's tokenizer.",
            )

    def _begin(self, pair: Pair, prompt: PromptLike, config: RunConfig) -> Speculation:
        return Speculation(pair, prompt, config)

    def _play(self, going: Sequence[Speculation]) -> Sequence[Round]:
        with torch.inference_mode():
            read_together([run.playing() for run in going], self._batches)
        return [next(run) for run in going]

    def _drafts(self, config: RunConfig) -> bool:
        return config.draft_method.needs_draft


class BatchedPlainRun(_Lockstep[PlainRun, int]):
    """Advances several plain runs; yields a tuple with each run's next token."""

    def _check(self, pair: Pair, config: RunConfig) -> None:
        """Do nothing: a batch can run every configuration of plain decoding."""

    def _begin(self, pair: Pair, prompt: PromptLike, config: RunConfig) -> PlainRun:
        return PlainRun(pair, prompt, config)

    def _play(self, going: Sequence[PlainRun]) -> Sequence[int]:
        return read_together([run.playing() for run in going], self._batches)


def read_together(readings: Sequence[Reading[Any]], batches: Sequence[StepBatch]) -> list[Any]:
    """Run several generators that share model passes; return one result per generator.

    Each generator yields the passes that it needs (see ``feeds.py``). A batch in ``batches`` makes
    a pass only if no generator waits for a pass of an earlier batch. So if the draft's batch comes
    before the target's batch, one target pass serves all runs.
    """
    results: list[Any] = [None] * len(readings)
    waiting = dict[int, Feed]()

    def go_on(index: int, resume: Callable[[], Feed]) -> None:
        try:
            waiting[index] = resume()
        except StopIteration as end:
            results[index] = end.value

    for index, reading in enumerate(readings):
        go_on(index, partial(next, reading))
    while waiting:
        batch, ready = next(
            (batch, ready)
            for batch in batches
            if (ready := [index for index, feed in waiting.items() if batch.has(feed)])
        )
        feeds = [waiting.pop(index) for index in ready]
        try:
            found = batch.feed(feeds)
        except BaseException as error:
            for index in ready:
                go_on(index, partial(readings[index].throw, error))
        else:
            for index, logits in zip(ready, found, strict=True):
                go_on(index, partial(readings[index].send, logits))
    return results
