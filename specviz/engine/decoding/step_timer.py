"""Time the steps of both models at one context length; the host drives the steps.

As in the decoding loop, the time of a step includes the processing of logits, the draw and the
host's wait for the device. The time of a draft phase includes drawing the uniforms of its whole
round. ``cost_columns.py`` sets the order of the steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch

from specviz.engine.decoding.device_lanes import StepTimer
from specviz.engine.decoding.drafting import make_drafter, wanted_states
from specviz.engine.decoding.head_drafting import HeadDrafter
from specviz.engine.decoding.judges import make_judge
from specviz.engine.decoding.model_drafting import ModelDrafter, ModelReader
from specviz.engine.decoding.plain_decoding import target_lane
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Draws, Noise, Sampler, Uniforms, make_chooser, one_hot
from specviz.engine.decoding.target_pass import TargetPass
from specviz.engine.decoding.tree_drafting import TreeDrafter
from specviz.engine.model.pair import Pair
from specviz.engine.model.steps import Step
from specviz.record.run_config import RunConfig


def step_timer(
    pair: Pair, token_ids: Sequence[int], config: RunConfig, context: int, *, stepwise: bool
) -> StepTimer:
    """Return a step timer that has not read its context yet.

    Args:
        token_ids: the context, then the tokens that timed steps feed.
        stepwise: if true, the host drives drafting and verification step by step, even if the pair
            can decode on the device.
    """
    if pair.lanes is not None and not stepwise and not pair.lanes.unsupported_reason(config):
        return pair.lanes.step_timer(token_ids, config, context)
    return LocalStepTimer(pair, token_ids, config, context)


class LocalStepTimer:
    """Times the steps of both models; the host drives drafting and verification step by step.

    Plain steps run as in plain decoding: on the device if the pair supports that. Implements
    ``device_lanes.StepTimer``.
    """

    def __init__(
        self, pair: Pair, token_ids: Sequence[int], config: RunConfig, context: int
    ) -> None:
        self._ids = list(token_ids)
        self._context = context
        self._vocabulary = pair.vocabulary
        self._device = pair.device
        self._drawn = Uniforms(0)
        self._proposals: dict[int, Proposal] = {}
        chain = replace(config, num_drafts=1, replacement=True, branching=(), dynamic_tree=())
        capacity = max(len(self._ids), context + config.depth + config.spare_rows) + 1
        sampler = Sampler(config)
        self._lane = target_lane(pair, self._ids[:1], chain, capacity)
        judge = make_judge(chain, sampler)
        self._pass = TargetPass(pair.target_step(capacity), sampler, judge, pair.device)
        shares = config.rule == "coupled"
        self._noise = Noise(0, pair.vocabulary, pair.device) if shares else None
        self._draft_step = self._drafter = self._tree = None
        method = config.draft_method
        if pair.draft is not None and method.needs_draft:
            self._draft_step = pair.draft_step(capacity)
            choose = make_chooser(chain, sampler)
            self._drafter = ModelDrafter(self._draft_step, choose, pair.vocabulary)
        elif method.has_steps and not method.needs_draft:
            self._drafter = make_drafter(pair, chain, capacity, sampler, None, self._pass.step)
            if wanted := wanted_states(self._drafter):
                self._pass.step.request_hidden(wanted)
        if not config.is_chain:
            reader = self._drafter if self._draft_step is None else ModelReader(self._draft_step)
            assert isinstance(reader, HeadDrafter | ModelReader)
            self._tree = TreeDrafter(reader, config, make_chooser(chain, sampler), pair.vocabulary)
        self._config = config
        self._check_tree = TargetPass(
            self._pass.step, sampler, make_judge(config, sampler), self._device
        )

    @property
    def drafts(self) -> bool:
        return self._drafter is not None

    @property
    def drafts_trees(self) -> bool:
        return self._tree is not None

    @property
    def readers(self) -> Sequence[Callable[[Sequence[int]], None]]:
        drafting = [] if self._draft_step is None else [partial(_feed, self._draft_step)]
        return [self._lane.read, self._feed_target, *drafting]

    def _feed_target(self, token_ids: Sequence[int]) -> None:
        """Feed the target; then feed its states to the head, if any."""
        _feed(self._pass.step, token_ids)
        if not isinstance(self._drafter, HeadDrafter):
            return
        assert self._pass.step.hidden is not None
        end = self._pass.step.length + 1  # a head's row has a state and the token after it
        self._drafter.read(self._ids[end - len(token_ids) : end], self._pass.step.hidden)

    def plain_step(self) -> float:
        self._wait()
        (seconds,) = self._lane.timed(self._ids[self._context : self._context + 1], 0)
        self._lane.forget(1)
        return seconds

    def draft_phase(self, tokens: int, count: int) -> float:
        assert self._drafter is not None
        drafter, history = self._drafter, self._ids[: self._context + tokens]
        drafter.settle(self._context)
        hidden = self._pass.step.hidden
        states = None if hidden is None else hidden[-1:].expand(tokens, -1)  # any will do
        with torch.inference_mode():
            return self._time(lambda: drafter.propose(history, count, self._draws(count), states))

    def verification(self, tokens: int) -> float:
        proposal, draws = self._proposal(tokens - 1), self._draws(tokens - 1)
        pending = self._ids[self._context]
        seconds = self._time(lambda: self._pass.check(pending, proposal, draws))
        self._pass.step.forget(tokens)
        return seconds

    def tree_round(self) -> tuple[float, float]:
        assert self._tree is not None
        drafter, history = self._tree, self._ids[: self._context + 1]
        depth, nodes = self._config.depth, self._config.most_candidates
        hidden = self._pass.step.hidden
        states = None if hidden is None else hidden[-1:]  # any will do
        made: list[Proposal] = []
        drafter.settle(self._context)  # a chain's draft phases do not roll the cache back
        with torch.inference_mode():
            drafting = self._time(
                lambda: made.append(drafter.propose(history, depth, self._draws(nodes), states))
            )
        drafter.settle(self._context)
        checked, draws = self._check_tree, self._draws(nodes)
        checking = self._time(lambda: checked.check(history[-1], made[0], draws))
        checked.settle(self._context, ())
        return drafting, checking

    def _proposal(self, count: int) -> Proposal:
        """Return ``count`` candidates, cached because building a proposal disturbs timings."""
        if count not in self._proposals:
            ids = torch.tensor(self._ids[self._context + 1 :][:count], device=self._device)
            probs = one_hot(ids[:, None], self._vocabulary)
            self._proposals[count] = Proposal(ids, probs, None, 1)
        return self._proposals[count]

    def _draws(self, count: int) -> Draws:
        uniforms = torch.from_numpy(self._drawn.of_round(0, count)).to(self._device)
        return Draws(uniforms, self._noise.rows(0, count + 1) if self._noise else None)

    def _time(self, action: Callable[[], object]) -> float:
        self._wait()
        began = time.perf_counter()
        action()
        self._wait()
        return time.perf_counter() - began

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _feed(step: Step, token_ids: Sequence[int]) -> None:
    step.feed(torch.tensor(token_ids, device=step.device), 0)
