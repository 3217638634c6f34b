"""Time plain steps, drafting and verification of a batch of sequences, as in a batched run.

The caches hold random keys and values. The time of a pass depends on how many cache rows it reads,
not on the values in the rows. As in ``step_timer.py``, the times include drawing the tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from specviz.engine.decoding.batched_run import read_together
from specviz.engine.decoding.judges import make_judge
from specviz.engine.decoding.model_drafting import ModelDrafter
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Draws, Sampler, Uniforms, make_chooser, one_hot
from specviz.engine.decoding.target_pass import TargetPass
from specviz.engine.model.feeds import Feed, Reading
from specviz.engine.model.pair import Pair
from specviz.engine.model.step_batch import StepBatch
from specviz.record.run_config import RunConfig

_T = TypeVar("_T")
_SPREAD = 0.02  # of the random keys and values: their scores must not overflow
Clock = Callable[[], float]  # returns seconds


class BatchTimer:
    """Times plain steps, drafting and verification for a batch of ``batch`` sequences.

    One model pass serves all sequences of the batch.

    ``longest``: the greatest context length that will be timed.
    """

    def __init__(
        self,
        pair: Pair,
        config: RunConfig,
        batch: int,
        longest: int,
        clock: Clock = time.perf_counter,
    ) -> None:
        assert pair.draft_weights is not None
        self._clock = clock
        capacity = longest + config.gamma + 2
        self._draft, self._target = (
            StepBatch(weights, pair.vocabulary, capacity, batch)
            for weights in (pair.draft_weights, pair.target_weights)
        )
        generator = torch.Generator().manual_seed(0)
        for cache in (self._draft.keys, self._draft.values, self._target.keys, self._target.values):
            cache[0].normal_(0.0, _SPREAD)
            cache[1:] = cache[:1]
        self._ids = torch.randint(pair.vocabulary, (batch, capacity), generator=generator).tolist()
        sampler, self._uniforms = Sampler(config), Uniforms(config.seed)
        self._sampler = sampler
        choose = make_chooser(config, sampler)
        self._drafters = [ModelDrafter(step, choose, pair.vocabulary) for step in self._draft.steps]
        self._passes = [
            TargetPass(step, sampler, make_judge(config, sampler), pair.device)
            for step in self._target.steps
        ]
        self._vocabulary, self._device = pair.vocabulary, pair.device
        self._proposals = dict[tuple[int, int], Proposal]()

    def plain_step(self, context: int) -> float:
        self._go_to(context)
        return self._time(
            [self._plain(number, context) for number in range(len(self._passes))], self._target
        )

    def draft_phase(self, context: int, tokens: int, count: int) -> float:
        """Return the seconds that the draft model needs to draft for all sequences.

        For each sequence, it reads ``tokens`` tokens in its first step and drafts ``count``
        candidates.
        """
        self._go_to(context)
        return self._time(
            [
                drafter.proposing(ids[: context + tokens], count, self._draws(count))
                for drafter, ids in zip(self._drafters, self._ids, strict=True)
            ],
            self._draft,
        )

    def verification(self, context: int, gamma: int) -> float:
        self._go_to(context)
        proposals = [self._proposal(number, gamma) for number in range(len(self._passes))]
        draws = self._draws(gamma)
        return self._time(
            [
                each.checking(ids[context], proposal, draws)
                for each, ids, proposal in zip(self._passes, self._ids, proposals, strict=True)
            ],
            self._target,
        )

    def _plain(self, number: int, context: int) -> Reading[int]:
        """Feed one token to sequence ``number`` and draw the next, as ``PlainLane`` does."""
        step = self._target.steps[number]
        fed = torch.tensor([self._ids[number][context]], device=self._device)
        logits = yield Feed(step=step, token_ids=fed, num_logits=1)
        return int(self._sampler.next_token(logits, lambda: self._draws(0).uniforms[:1]))

    def _proposal(self, number: int, count: int) -> Proposal:
        if (number, count) not in self._proposals:
            ids = torch.tensor(self._ids[number][:count], device=self._device)
            self._proposals[number, count] = Proposal(
                ids, one_hot(ids[:, None], self._vocabulary), None, 1
            )
        return self._proposals[number, count]

    def _draws(self, count: int) -> Draws:
        return Draws(torch.from_numpy(self._uniforms.of_round(0, count)).to(self._device))

    def _go_to(self, context: int) -> None:
        for step in (*self._draft.steps, *self._target.steps):
            step.set_position(context)

    @torch.inference_mode()
    def _time(self, readings: Sequence[Reading[_T]], batch: StepBatch) -> float:
        self._wait()
        began = self._clock()
        read_together(readings, [batch])
        self._wait()
        return self._clock() - began

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
