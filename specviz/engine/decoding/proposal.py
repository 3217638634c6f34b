"""A drafter's proposal: candidates, their tree, and the distributions they were drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from specviz.engine.decoding.sampling import one_hot


@dataclass(frozen=True, slots=True)
class Tree:
    """How the candidates of a proposal are connected.

    ``size``: the number of candidates. ``catch_up`` and ``parents``: as in ``Proposal``.
    """

    size: int
    catch_up: int
    parents: tuple[int, ...] | None

    @property
    def in_tree(self) -> tuple[int, ...]:
        """The index of each candidate's parent, also for a chain; -1 if the parent is the text."""
        return chain(self.size) if self.parents is None else self.parents


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """Candidates and the distributions they were drawn from.

    ``parents``: the index of each candidate's parent, or -1 if the parent is the text. For a chain,
    ``parents`` is None. Siblings are in the order in which they were drawn.
    """

    token_ids: torch.Tensor  # [num_candidates]
    probs: torch.Tensor  # [num_candidates, vocabulary]
    logits: torch.Tensor | None  # [num_candidates, vocabulary]; None without a model
    catch_up: int  # tokens that the drafter fed in its first step
    parents: tuple[int, ...] | None = None

    @property
    def tree(self) -> Tree:
        """The number of candidates and their parents, without the proposal's tensors."""
        return Tree(len(self.token_ids), self.catch_up, self.parents)

    @property
    def children(self) -> dict[int, list[int]]:
        """A map from each node to the indices of its children; node -1 is the text."""
        found: dict[int, list[int]] = {}
        for number, parent in enumerate(self.in_tree):
            found.setdefault(parent, []).append(number)
        return found

    @property
    def in_tree(self) -> tuple[int, ...]:
        return self.tree.in_tree

    def part(self, numbers: list[int]) -> Proposal:
        """Return a proposal with only the candidates at these indices and without ``parents``."""
        logits = None if self.logits is None else self.logits[numbers]
        return Proposal(self.token_ids[numbers], self.probs[numbers], logits, self.catch_up)


def certain(token_ids: Sequence[int], vocabulary: int, device: torch.device) -> Proposal:
    """Return a proposal of these tokens as a chain, with one-hot draft distributions."""
    ids = torch.tensor(token_ids, dtype=torch.int64, device=device)
    return Proposal(ids, one_hot(ids[:, None], vocabulary), None, 0)


def nothing(vocabulary: int, device: torch.device, catch_up: int = 0) -> Proposal:
    """Return a proposal without candidates."""
    return Proposal(
        torch.empty(0, dtype=torch.int64, device=device),
        torch.empty(0, vocabulary, device=device),
        torch.empty(0, vocabulary, device=device),
        catch_up,
    )


def chain(count: int) -> tuple[int, ...]:
    return tuple(range(-1, count - 1))


def depths(parents: Sequence[int]) -> list[int]:
    """Return the depth of each candidate; the children of the text have depth 0."""
    found: list[int] = []
    for parent in parents:
        found.append(0 if parent < 0 else found[parent] + 1)
    return found
