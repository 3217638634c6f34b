"""Create the objects that decode a loaded pair's texts on the device (``DeviceLanes``).

These objects run captured stages: the parts of a round, or a step of the target alone. On a GPU,
each stage is a CUDA graph.

A run takes the idle memory of an earlier run if that memory has enough rows; otherwise the run
allocates new memory. A run's memory becomes idle when the object that decodes the run is
garbage-collected. Idle memory keeps the captured stages of the last few configurations.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import torch

from specviz.engine.graphed.chain import Chain, PairMemory
from specviz.engine.graphed.playback import Playback, playback_on
from specviz.engine.graphed.rounds import AHEAD, GraphedRounds
from specviz.engine.graphed.target_decoder import GraphedTarget, SingleStep
from specviz.engine.graphed.text_state import TextState, rows_for
from specviz.engine.graphed.timer import GraphedTimer
from specviz.engine.model.static_step import STATIC_CAPABILITIES, StaticStep
from specviz.engine.model.step_capabilities import missing_reason
from specviz.engine.model.steps import StepWeights
from specviz.engine.model.text import TokenTable
from specviz.record.run_config import RunConfig

_RULES = ("lossless", "over-accept", "typical")  # rules that judge candidate by candidate
_MOST_IDLE = 2  # idle memories kept with a draft, and as many without a draft
_MOST_KEPT = 4  # configurations per memory whose stages stay captured
_MARGIN = 2

_Stages: TypeAlias = OrderedDict[tuple[object, ...], Any]


@dataclass(slots=True, eq=False, kw_only=True)
class _Memory:
    """Both models' caches and a text's state; ``draft`` is None for the target alone."""

    target: StaticStep
    draft: StaticStep | None
    state: TextState
    stages: _Stages = field(default_factory=OrderedDict)

    @property
    def rows(self) -> int:
        return self.state.rows

    @property
    def pair(self) -> PairMemory:
        assert self.draft is not None
        return PairMemory(self.target, self.draft, self.state)

    def cached(self, key: tuple[object, ...], make: Callable[[], Any], most: int) -> Any:
        """Return the value cached for ``key``; if there is none, make it and cache it.

        The cache keeps the ``most`` keys that were used last.
        """
        if key not in self.stages:
            self.stages[key] = make()
            while len(self.stages) > most:
                self.stages.popitem(last=False)
        self.stages.move_to_end(key)
        return self.stages[key]


class GraphedLanes:
    """Implements ``device_lanes.DeviceLanes`` with captured stages."""

    def __init__(
        self,
        target: StepWeights,
        draft: StepWeights | None,
        table: TokenTable,
        device: torch.device,
    ) -> None:
        self.weights = (target, draft)
        self._table = table
        self._device = device
        self._playback: Playback = playback_on(device)
        self._idle: list[_Memory] = []

    def unsupported_reason(self, config: RunConfig) -> str:
        if not config.is_chain:
            return missing_reason(STATIC_CAPABILITIES.trees)
        if config.rule not in _RULES:
            return f"rule={config.rule} cannot run entirely on the device"
        if config.draft_until != "count":
            return "drafting that stops early cannot run entirely on the device"
        if not config.draft_method.needs_draft:
            return "only drafting by the draft model can run entirely on the device"
        return ""

    def rounds(self, prompt_ids: Sequence[int], config: RunConfig, capacity: int) -> GraphedRounds:
        memory = self._take(capacity + AHEAD * (config.gamma + 1) + _MARGIN, with_draft=True)
        chain = self._chain(memory, config)
        return self._returned_after(GraphedRounds(chain, prompt_ids, config), memory)

    def target_lane(
        self, prompt_ids: Sequence[int], config: RunConfig, capacity: int
    ) -> GraphedTarget:
        memory = self._take(capacity + AHEAD + _MARGIN, with_draft=False)
        single = self._single(memory, config)
        return self._returned_after(GraphedTarget(single, prompt_ids, config), memory)

    def step_timer(self, token_ids: Sequence[int], config: RunConfig, context: int) -> GraphedTimer:
        rows = len(token_ids) + AHEAD + _MARGIN
        memory, playback = self._take(rows, with_draft=True), self._playback
        target = self.target_lane(token_ids[:1], config, rows)

        def chain_of(gamma: int) -> Chain:
            return self._chain(memory, replace(config, gamma=gamma), most=len(token_ids))

        timer = GraphedTimer(memory.pair, chain_of, target, playback, token_ids, context)
        weakref.finalize(timer, memory.stages.clear)  # runs do not use these stages
        return self._returned_after(timer, memory)

    def _chain(self, memory: _Memory, config: RunConfig, most: int = _MOST_KEPT) -> Chain:
        forced = any(fork.instead is not None for fork in config.forks)
        key = ("chain", *_sampling(config), config.gamma, config.rule, config.epsilon)
        make = partial(Chain, memory.pair, config, self._table, self._playback, forced=forced)
        return memory.cached((*key, config.residual, forced), make, most)

    def _single(self, memory: _Memory, config: RunConfig) -> SingleStep:
        make = partial(SingleStep, memory.target, memory.state, config, self._playback)
        return memory.cached(("single", *_sampling(config)), make, _MOST_KEPT)

    def _take(self, rows: int, *, with_draft: bool) -> _Memory:
        same_kind = [each for each in self._idle if (each.draft is not None) == with_draft]
        fitting = [each for each in same_kind if each.rows >= rows]
        if fitting:
            memory = min(fitting, key=lambda each: each.rows)
            self._idle.remove(memory)
            return memory
        return self._new_memory(rows_for(rows), with_draft=with_draft)

    def _new_memory(self, rows: int, *, with_draft: bool) -> _Memory:
        target, draft = self.weights
        size = len(self._table.texts)
        return _Memory(
            target=target.static_step(size, rows),
            draft=draft.static_step(size, rows) if with_draft and draft else None,
            state=TextState(rows, self._device),
        )

    def _returned_after(self, lane: Any, memory: _Memory) -> Any:
        weakref.finalize(lane, _return_memory, self._idle, memory)
        return lane


def _return_memory(idle: list[_Memory], memory: _Memory) -> None:
    """Append memory to ``idle``; if there are too many of its kind, remove the smallest.

    The two kinds are memories with a draft and memories without a draft.
    """
    idle.append(memory)
    same_kind = [each for each in idle if (each.draft is None) == (memory.draft is None)]
    if len(same_kind) > _MOST_IDLE:
        idle.remove(min(same_kind, key=lambda each: each.rows))


def _sampling(config: RunConfig) -> tuple[object, ...]:
    return config.temperature, config.top_k, config.top_p
