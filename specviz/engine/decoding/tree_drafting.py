"""Draft trees of candidates; several drafts (parallel chains) also form a tree.

The draft reads a level in one step; a node attends only to its ancestors. Siblings are drawn in
turn, without replacement: earlier siblings are removed from the distribution. Several drafts with
``replacement`` draw all siblings from the same distribution. At temperature 0 and without
replacement, the siblings are the draft's likeliest tokens in order.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.engine.decoding.model_drafting import ModelReader
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Draws, Sampler, on_one_thread
from specviz.engine.model.steps import Step
from specviz.record.run_config import RunConfig


class TreeDrafter(ModelReader):
    """Drafts a tree with the draft model, one level per step."""

    def __init__(self, step: Step, config: RunConfig, sampler: Sampler) -> None:
        super().__init__(step)
        self._shape = config.shape
        self._sampler = sampler
        self._repeats = config.replacement and not config.branching
        self._fed = 0  # number of this round's nodes in the draft's cache

    def propose(
        self, history: Sequence[int], count: int, draws: Draws, hidden: torch.Tensor | None
    ) -> Proposal:
        del hidden
        catch_up = len(history) - self._step.length
        tree = _Tree()
        fed = torch.tensor(history[-catch_up:], device=self._step.device)
        logits, level = self._step.feed(fed, 1), [-1]
        self._fed = 0
        for depth, branches in enumerate(self._shape[:count]):
            children = [
                child
                for row, parent in enumerate(level)
                for child in self._children(tree, parent, logits[row : row + 1], branches, draws)
            ]
            if depth + 1 == min(count, len(self._shape)):
                break
            tokens = torch.cat([tree.tokens[child] for child in children])
            logits = self._step.branch(tokens, [tree.parents[child] for child in children])
            self._fed += len(children)
            level = children
        return tree.proposal(catch_up)

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        self._step.keep([node for node in kept if node < self._fed])
        self._step.forget(max(0, self._step.length - valid))

    @on_one_thread
    def _children(
        self, tree: _Tree, parent: int, logits: torch.Tensor, branches: int, draws: Draws
    ) -> list[int]:
        """Draw ``branches`` children of a node, fewer if no token is left; add them to ``tree``.

        Returns:
            The indices of the children.
        """
        left, added = logits, list[int]()
        for _ in range(branches):
            number = len(tree.parents)
            token, distribution = self._sampler.choose(left, draws.of_candidate(number))
            added.append(tree.add(parent, token, distribution, logits))
            if not self._repeats:
                left = left.index_fill(-1, token, float("-inf"))
                if not left.isfinite().any():
                    break
        return added


class _Tree:
    """The nodes drafted so far."""

    def __init__(self) -> None:
        self.parents: list[int] = []
        self.tokens: list[torch.Tensor] = []
        self._distributions: list[torch.Tensor] = []
        self._rows: list[torch.Tensor] = []

    def add(
        self, parent: int, token: torch.Tensor, distribution: torch.Tensor, logits: torch.Tensor
    ) -> int:
        self.parents.append(parent)
        self.tokens.append(token)
        self._distributions.append(distribution)
        self._rows.append(logits)
        return len(self.parents) - 1

    def proposal(self, catch_up: int) -> Proposal:
        return Proposal(
            torch.cat(self.tokens),
            torch.cat(self._distributions),
            torch.cat(self._rows),
            catch_up,
            tuple(self.parents),
        )
