"""Steps that pass calls on to another step; subclasses change some of the calls."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.engine.model.step_capabilities import HiddenStates, StepCapabilities
from specviz.engine.model.steps import Step


class StepOver(Step):
    """A step that runs another step. By default, its length is the other step's length."""

    def __init__(self, step: Step) -> None:
        self.step = step

    @property
    def length(self) -> int:
        return self.step.length

    @property
    def device(self) -> torch.device:
        return self.step.device

    def forget(self, count: int) -> None:
        self.step.forget(count)


class WrappedStep(StepOver):
    """A step that passes every call on to another step."""

    @property
    def capabilities(self) -> StepCapabilities:
        return self.step.capabilities

    def request_hidden(self, states: HiddenStates) -> None:
        self.step.request_hidden(states)

    @property
    def hidden(self) -> torch.Tensor | None:
        return self.step.hidden

    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        return self.step.feed(token_ids, num_logits)

    def catch_up(self) -> None:
        self.step.catch_up()

    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        return self.step.branch(token_ids, parents)

    def keep(self, nodes: Sequence[int]) -> None:
        self.step.keep(nodes)

    def early_exit(self, layers: int) -> Step:
        return self.step.early_exit(layers)
