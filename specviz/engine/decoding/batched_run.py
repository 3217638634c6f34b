"""Runs of several prompts that share the passes of their models.

Each run is an ordinary run with its own text, caches, random numbers and acceptance; only its
passes are made together with those of the other runs. So a run's text equals that of the same run
alone: to the bit with compiled steps, elsewhere except where two tokens are almost equally likely.

The runs keep step: all draft, then one target pass verifies the candidates of all. A run that
accepted few candidates goes on from its own position; nothing waits for it and no cache moves.
There is no scheduler: runs begin together, and no new run takes the place of one that has ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from specviz.engine.decoding.endings import room_for
from specviz.engine.decoding.plain_decoding import PlainRun
from specviz.engine.decoding.speculation import Speculation
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.feeds import Feed, Reading
from specviz.engine.model.memory import memory_errors
from specviz.engine.model.pair import Pair
from specviz.engine.model.step_batch import StepBatch
from specviz.errors import ConfigError, PairError
from specviz.record.conversations import PromptLike
from specviz.record.trace import Round, RunConfig


class BatchedSpeculation(Iterator[tuple[Round | None, ...]]):
    """An iterator over the rounds of several runs: one round of every run that has not ended.

    A round's times include the work for the other runs of the batch.

    Args:
        seeds: The seed of every run; the configuration's if there are none.
        padded: As in ``StepBatch``.
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
        _check(pair, prompts, config)
        config = dataclasses.replace(config, record=False)  # a record is one round behind
        configs = _configs(config, seeds, len(prompts))
        self._device = pair.device
        batched, self._batches = _batched(pair, prompts, configs, padded=padded)
        self.runs = tuple(
            Speculation(batched, prompt, each)
            for prompt, each in zip(prompts, configs, strict=True)
        )

    def __next__(self) -> tuple[Round | None, ...]:
        going = [run for run in self.runs if not run.done]
        if not going:
            raise StopIteration
        with memory_errors(self._device):
            read_together([run.playing() for run in going], self._batches)
        return tuple(next(run) if run in going else None for run in self.runs)


class BatchedPlainRun(Iterator[tuple[int | None, ...]]):
    """An iterator over the tokens of several plain runs: one of every run that has not ended."""

    def __init__(
        self,
        pair: Pair,
        prompts: Sequence[PromptLike],
        config: RunConfig,
        *,
        seeds: Sequence[int] = (),
        padded: bool = False,
    ) -> None:
        _check(pair, prompts, config)
        configs = _configs(config, seeds, len(prompts))
        self._device = pair.device
        batched, self._batches = _batched(pair, prompts, configs, padded=padded)
        self.runs = tuple(
            PlainRun(batched, prompt, each) for prompt, each in zip(prompts, configs, strict=True)
        )

    def __next__(self) -> tuple[int | None, ...]:
        going = [run for run in self.runs if not run.done]
        if not going:
            raise StopIteration
        with memory_errors(self._device):
            found = iter(read_together([run.playing() for run in going], self._batches))
        return tuple(next(found) if run in going else None for run in self.runs)


def read_together(readings: Sequence[Reading[Any]], batches: Sequence[StepBatch]) -> list[Any]:
    """Make the passes of several readings together; return the result of each.

    While a reading waits for a pass of an earlier batch, no pass of a later one is made. So with
    the draft's batch before the target's, one target pass serves all runs.
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


def _configs(config: RunConfig, seeds: Sequence[int], size: int) -> list[RunConfig]:
    assert len(seeds) in {0, size}
    return [dataclasses.replace(config, seed=seed) for seed in seeds] or [config] * size


def _batched(
    pair: Pair, prompts: Sequence[PromptLike], configs: Sequence[RunConfig], *, padded: bool
) -> tuple[Pair, list[StepBatch]]:
    """Return the pair with batches in place of its weights, the draft's batch first."""
    capacity = max(
        room_for(pair, encode_prompt(pair, prompt, chat=config.chat), config)[0]
        for prompt, config in zip(prompts, configs, strict=True)
    )
    weights = [each for each in (pair.draft_weights, pair.target_weights) if each is not None]
    batches = [
        StepBatch(each, pair.vocabulary, capacity, len(prompts), padded=padded) for each in weights
    ]
    draft = batches[0] if pair.draft_weights is not None else None
    batched = dataclasses.replace(
        pair, target_weights=batches[-1], draft_weights=draft, lanes=None, last_read=None
    )
    return batched, batches


def _check(pair: Pair, prompts: Sequence[PromptLike], config: RunConfig) -> None:
    if not prompts:
        raise ConfigError("A batch has no prompts.", remedy="Give at least one prompt.")
    if not config.is_chain or (
        config.draft_method.has_steps and not config.draft_method.needs_draft
    ):
        raise ConfigError(
            f"A batch cannot draft with {config.drafter} in this shape.",
            remedy="Use a draft model or a lookup drafter, and one chain of candidates.",
        )
    if pair.shared is not None:
        raise PairError(
            "The models of a batch must share one vocabulary.",
            remedy="Use a draft with the target's tokenizer.",
        )
