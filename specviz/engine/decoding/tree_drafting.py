"""Draft trees of candidates; several drafts (parallel chains) also form a tree.

The draft model or the head processes a level (nodes of the same depth) in one step; a node attends
only to the text and to its ancestors in the tree. Siblings are drawn in turn, without replacement:
earlier siblings are removed from the distribution. Several drafts with ``replacement`` draw all
siblings from the same distribution. At temperature 0 and under token matching, the siblings are the
draft's likeliest tokens in order. ``tree_growth.py`` decides how many children a node gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from specviz.engine.decoding.proposal import Proposal, nothing
from specviz.engine.decoding.sampling import Chooser, Draws, on_one_thread, one_hot
from specviz.engine.decoding.tree_growth import Growth, growth_of
from specviz.engine.model.step_capabilities import HiddenStates
from specviz.record.run_config import RunConfig


class TreeReader(Protocol):
    """Runs a draft model (``ModelReader``) or a head (``HeadReader``) on the nodes of a tree."""

    @property
    def wants_hidden(self) -> HiddenStates | bool: ...

    @property
    def deepest(self) -> int | None:
        """Return the largest number of candidates on a path; None if there is no limit."""
        ...

    def prefill(self, prompt_ids: Sequence[int]) -> None: ...

    def begin(
        self, history: Sequence[int], hidden: torch.Tensor | None
    ) -> tuple[torch.Tensor, int] | None:
        """Feed the text's new tokens.

        Returns:
            The logits `[1, vocabulary]` after the text, and the number of tokens fed; None if the
            drafter cannot draft yet.
        """
        ...

    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        """Feed nodes as in ``Step.branch``, and return their logits `[num_nodes, vocabulary]`."""
        ...

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """Roll back to the first ``valid`` tokens of the text.

        ``kept``: the fed tree nodes that are now part of the text.
        """
        ...


class TreeDrafter:
    """Drafts a tree of candidates; one step of ``reader`` processes all nodes of the same depth."""

    def __init__(
        self, reader: TreeReader, config: RunConfig, choose: Chooser, vocabulary: int
    ) -> None:
        self.reader = reader
        self._config = config
        self._choose = choose
        self._vocabulary = vocabulary
        self._repeats = config.replacement and config.num_drafts > 1
        self._read: dict[int, int] = {}  # place of each candidate among the nodes fed to the reader

    @property
    def wants_hidden(self) -> HiddenStates | bool:
        return self.reader.wants_hidden

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        self.reader.prefill(prompt_ids)

    def propose(
        self, history: Sequence[int], count: int, draws: Draws, hidden: torch.Tensor | None
    ) -> Proposal:
        self._read = {}
        first = self.reader.begin(history, hidden)
        if first is None:
            return nothing(self._vocabulary, draws.uniforms.device)
        logits, catch_up = first
        depth = min(count, self._config.depth, self.reader.deepest or count)
        growth, tree = growth_of(self._config, depth), _Tree()
        level, read = [-1], dict[int, int]()
        for place in range(depth):
            children = self._add_children(tree, growth, place, level, logits, draws)
            level = growth.expanded(children, tree.scores)
            if place + 1 == depth or not level:
                break
            parents = [read.get(tree.parents[node], -1) for node in level]
            logits = self.reader.branch(tree.newest_tokens(level), parents)
            read |= {node: len(read) + number for number, node in enumerate(level)}
        verified = growth.verified(tree.scores)
        self._read = {number: read[node] for number, node in enumerate(verified) if node in read}
        return tree.proposal(catch_up, verified)

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        self.reader.settle(valid, [self._read[node] for node in kept if node in self._read])

    @on_one_thread
    def _add_children(
        self,
        tree: _Tree,
        growth: Growth,
        depth: int,
        level: Sequence[int],
        logits: torch.Tensor,
        draws: Draws,
    ) -> range:
        """Add children of the nodes in ``level`` to ``tree``; return the children's indices.

        ``logits``: the logits after each of these nodes. ``depth``: the children's depth.
        """
        above = [tree.scores[node] if node >= 0 else 0.0 for node in level]
        width = min(growth.width(depth), logits.shape[-1])
        scores = logits.log_softmax(-1) if width else logits
        tops = scores.topk(width, dim=-1)
        largest = tops.values.double().cpu().numpy()
        counts = growth.children(depth, above, largest)
        if not any(counts):
            return range(0)
        if growth.likeliest:
            made = _Children.likeliest(counts, tops.indices)
        else:
            made = self._draw(logits, counts, len(tree.parents), draws)
        rows = torch.tensor(made.rows, device=logits.device)
        found = scores[rows, made.token_ids].tolist() if width else [0.0] * len(made.rows)
        scored = [above[row] + each for row, each in zip(made.rows, found, strict=True)]
        return tree.add(level, made, scored, logits)

    def _draw(
        self, logits: torch.Tensor, counts: Sequence[int], first: int, draws: Draws
    ) -> _Children:
        """Draw ``counts[row]`` children from each row of ``logits``.

        A node gets fewer children if no token is left.

        ``first``: the index of the first child in the tree.
        """
        rows, tokens, distributions = list[int](), list[torch.Tensor](), list[torch.Tensor]()
        for row, most in enumerate(counts):
            left = logits[row : row + 1]
            for place in range(most):
                if place and not self._repeats:
                    left = left.index_fill(-1, tokens[-1], float("-inf"))
                    if not left.isfinite().any():
                        break
                token, distribution = self._choose(left, draws, first + len(tokens))
                rows.append(row)
                tokens.append(token)
                distributions.append(distribution)
        return _Children(rows, torch.cat(tokens), distributions)


@dataclass(frozen=True, slots=True, eq=False)
class _Children:
    """The children of nodes of the same depth, ordered by parent."""

    rows: list[int]  # for each child, the row of its parent in the level
    token_ids: torch.Tensor  # [num_children]
    probs: list[torch.Tensor]  # each child's distribution, [1, vocabulary]; empty for one-hots

    @staticmethod
    def likeliest(counts: Sequence[int], ranked: torch.Tensor) -> _Children:
        """Return the first ``counts[row]`` tokens of each row of ``ranked`` as children.

        ``ranked`` `[num_nodes, width]`: each parent's next tokens, likeliest first.
        """
        rows = [row for row, count in enumerate(counts) for _ in range(count)]
        places = [place for count in counts for place in range(count)]
        return _Children(rows, ranked[rows, places], [])


class _Tree:
    """The nodes drafted so far, level by level."""

    def __init__(self) -> None:
        self.parents: list[int] = []
        self.scores: list[float] = []
        self._levels: list[torch.Tensor] = []  # token ids
        self._probs: list[torch.Tensor] = []  # as in ``_Children``, by node
        self._logits: list[torch.Tensor] = []  # for each level: the logits after its parents
        self._rows: list[int] = []  # for each node: its row in the joined ``_logits``

    def add(
        self,
        level: Sequence[int],
        children: _Children,
        scores: Sequence[float],
        logits: torch.Tensor,
    ) -> range:
        first, before = len(self.parents), sum(map(len, self._logits))
        self.parents += [level[row] for row in children.rows]
        self.scores += scores
        self._rows += [before + row for row in children.rows]
        self._levels.append(children.token_ids)
        self._probs += children.probs
        self._logits.append(logits)
        return range(first, len(self.parents))

    def newest_tokens(self, nodes: Sequence[int]) -> torch.Tensor:
        """Return the token ids of these nodes, which must be nodes of the newest level."""
        tokens = self._levels[-1]
        first = len(self.parents) - len(tokens)
        return tokens[[node - first for node in nodes]]

    def proposal(self, catch_up: int, nodes: Sequence[int]) -> Proposal:
        """Return these nodes as candidates; ``nodes`` must contain each node's ancestors, too."""
        numbers = {node: number for number, node in enumerate(nodes)} | {-1: -1}
        logits = torch.cat(self._logits)
        token_ids = torch.cat(self._levels)[list(nodes)]
        drawn = [self._probs[node] for node in nodes] if self._probs else []
        return Proposal(
            token_ids,
            torch.cat(drawn) if drawn else one_hot(token_ids[:, None], logits.shape[-1]),
            logits[[self._rows[node] for node in nodes]],
            catch_up,
            tuple(numbers[self.parents[node]] for node in nodes),
        )
