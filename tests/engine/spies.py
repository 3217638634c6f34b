"""Spies: real steps and target passes that record their inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Draws
from specviz.engine.decoding.target_pass import TargetPass, TargetPassResult
from specviz.engine.model.feeds import Reading
from specviz.engine.model.pair import Pair
from specviz.engine.model.steps import Step
from specviz.engine.model.wrapped_step import WrappedStep


class StepSpy(WrappedStep):
    """A step that records every feed and what its cache should contain."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.held: list[int] = []
        self.nodes: list[int] = []  # of an open tree
        self.feeds: list[Feed] = []

    @property
    def length(self) -> int:
        assert self.step.length == len(self.held)
        return self.step.length

    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        logits = self.step.feed(token_ids, num_logits)
        before = tuple(self.held)
        self.held += token_ids.tolist()
        self.feeds.append(Feed(before, tuple(token_ids.tolist()), num_logits, logits.clone()))
        return logits

    def forget(self, count: int) -> None:
        self.step.forget(count)
        del self.held[len(self.held) - count :]

    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        self.nodes += token_ids.tolist()
        return self.step.branch(token_ids, parents)

    def keep(self, nodes: Sequence[int]) -> None:
        self.step.keep(nodes)
        self.held += [self.nodes[node] for node in nodes]
        self.nodes.clear()


@dataclass(frozen=True, eq=False)
class Feed:
    before: tuple[int, ...]  # in the cache before the feed
    fed: tuple[int, ...]
    num_logits: int
    logits: torch.Tensor


@dataclass(eq=False)
class Notes:
    """What the spies of one run recorded."""

    targets: list[StepSpy] = field(default_factory=list)
    drafts: list[StepSpy] = field(default_factory=list)
    passes: list[tuple[Proposal, torch.Tensor, TargetPassResult]] = field(default_factory=list)


def watch(monkeypatch: pytest.MonkeyPatch) -> Notes:
    """Record the steps of every pair and every target pass from now on."""
    notes = Notes()
    target_step, draft_step, checking = Pair.target_step, Pair.draft_step, TargetPass.checking

    def spied_target(pair: Pair, capacity: int, prompt_ids: Sequence[int] = ()) -> Step:
        notes.targets.append(StepSpy(target_step(pair, capacity, prompt_ids)))
        return notes.targets[-1]

    def spied_draft(pair: Pair, capacity: int, prompt_ids: Sequence[int] = ()) -> Step:
        notes.drafts.append(StepSpy(draft_step(pair, capacity, prompt_ids)))
        return notes.drafts[-1]

    def spied_checking(
        self: TargetPass, pending: int, proposal: Proposal, draws: Draws, *rest: Any
    ) -> Reading[TargetPassResult]:
        result = yield from checking(self, pending, proposal, draws, *rest)
        notes.passes.append((proposal, draws.uniforms, result))
        return result

    monkeypatch.setattr(Pair, "target_step", spied_target)
    monkeypatch.setattr(Pair, "draft_step", spied_draft)
    monkeypatch.setattr(TargetPass, "checking", spied_checking)
    return notes
