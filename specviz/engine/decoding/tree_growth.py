"""How a tree of candidates grows: children per node, nodes to expand, nodes to verify.

*Static*: the tree has the shape in the settings. *Dynamic* (EAGLE-2): at each depth, the draft
expands the nodes with the likeliest paths. A path's likelihood is the product of the draft's
probabilities at temperature 1, whatever the run's temperature. Two dynamic growths keep the output
exact:

* ``LikeliestGrowth`` for token matching. Children are the draft's likeliest tokens, and the
  candidates are the nodes with the likeliest paths. The tree is a function of the text, so it is
  fixed before the target's tokens are drawn. With any such tree, the output is exact.
* ``SampledGrowth`` for the lossless rule. Children are drawn without replacement, and all of them
  are verified. The number of a node's children is fixed before any of them is drawn. It depends on
  the likelihoods of the nodes at this depth and on the sorted probabilities of their next tokens,
  but not on the tokens that are drawn. So the children have the distribution that the verification
  assumes, and the token after every accepted path has the target's distribution. A growth that
  draws children and then removes the improbable ones is not exact: it tests unlikely tokens less
  often than the verification assumes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from specviz.record.run_config import RunConfig
from specviz.record.shapes import Shape


class Growth(ABC):
    """Decides how the tree of candidates of one round grows.

    A node's score is the log-likelihood of the path from the text to the node. ``likeliest``:
    whether the children are the draft's likeliest tokens; otherwise they are drawn.
    """

    def __init__(self, *, likeliest: bool) -> None:
        self.likeliest = likeliest

    @abstractmethod
    def width(self, depth: int) -> int:
        """Return how many likeliest next tokens of a node ``children`` needs at this depth."""

    @abstractmethod
    def children(self, depth: int, above: Sequence[float], tops: np.ndarray) -> list[int]:
        """Return the number of children of each expanded node.

        Args:
            depth: The children's depth; 0 for the children of the text.
            above: the scores of the expanded nodes.
            tops: the largest log-probabilities `[num_nodes, width]` of each expanded node's next
                tokens, descending; -inf for impossible tokens.
        """

    def expanded(self, level: Sequence[int], scores: Sequence[float]) -> list[int]:
        """Return which of the newest nodes (``level``) get children, ordered by index."""
        del scores
        return list(level)

    def verified(self, scores: Sequence[float]) -> list[int]:
        """Return the nodes that become candidates, in the order of their indices."""
        return list(range(len(scores)))


class StaticGrowth(Growth):
    def __init__(self, shape: Shape, *, likeliest: bool) -> None:
        super().__init__(likeliest=likeliest)
        self._shape = shape

    def width(self, depth: int) -> int:
        return self._shape[depth] if self.likeliest else 0

    def children(self, depth: int, above: Sequence[float], tops: np.ndarray) -> list[int]:
        if self.likeliest:
            return _possible(tops)
        return [self._shape[depth]] * len(above)


class _DynamicGrowth(Growth):
    def __init__(self, tree: Shape, depth: int, *, likeliest: bool) -> None:
        super().__init__(likeliest=likeliest)
        self._width, self._candidates = tree
        self._depth = depth

    def width(self, depth: int) -> int:
        del depth
        return self._width

    def expanded(self, level: Sequence[int], scores: Sequence[float]) -> list[int]:
        return _likeliest(level, scores, self._width)


class LikeliestGrowth(_DynamicGrowth):
    """Grows the tree of EAGLE-2 (Li et al. 2024)."""

    def children(self, depth: int, above: Sequence[float], tops: np.ndarray) -> list[int]:
        del depth, above
        return _possible(tops)

    def verified(self, scores: Sequence[float]) -> list[int]:
        """Return the nodes with the likeliest paths; a node's ancestors are always among them."""
        return _likeliest(range(len(scores)), scores, self._candidates)


class SampledGrowth(_DynamicGrowth):
    """Divides the candidates among the depths and nodes before they are drawn.

    The score of a node's k-th possible child is the node's score plus the k-th largest
    log-probability of the node's next token. Deeper levels do not exist yet, so their scores are
    estimated. For each k, the mean of the expanded nodes' k-th largest probabilities is computed,
    weighted by the nodes' likelihoods. For every later node, this mean is assumed to be the k-th
    largest probability of the node's next token.

    All possible children, on this level and on deeper levels, are ranked together. If n candidates
    are left, the n children with the highest scores are chosen. The chosen children on this level
    are drawn now.
    """

    def __init__(self, tree: Shape, depth: int, *, likeliest: bool) -> None:
        super().__init__(tree, depth, likeliest=likeliest)
        self._left = self._candidates

    def children(self, depth: int, above: Sequence[float], tops: np.ndarray) -> list[int]:
        nodes = np.array(above, np.float64)[:, None]
        scores = nodes + tops  # [num_nodes, width]
        profile = np.logaddexp.reduce(scores, 0) - np.logaddexp.reduce(nodes, 0)
        levels = [scores.ravel()]
        for _ in range(depth + 1, self._depth):
            frontier = np.sort(levels[-1])[::-1][: self._width]
            levels.append((frontier[:, None] + profile).ravel())
        ranked = np.concatenate(levels)
        best = np.argsort(-ranked, kind="stable")[: self._left]
        chosen = best[(best < scores.size) & np.isfinite(ranked[best])]
        counts = np.bincount(chosen // scores.shape[1], minlength=len(above))
        self._left -= int(counts.sum())
        return counts.tolist()

    def expanded(self, level: Sequence[int], scores: Sequence[float]) -> list[int]:
        return super().expanded(level, scores) if self._left else []


def growth_of(config: RunConfig, depth: int) -> Growth:
    """Return the object that decides how a tree of at most ``depth`` levels grows."""
    matches = config.rule == "match"
    likeliest = matches or config.greedy
    if config.dynamic_tree:
        dynamic = LikeliestGrowth if matches else SampledGrowth
        return dynamic(config.dynamic_tree, depth, likeliest=likeliest)
    repeats = config.replacement and config.num_drafts > 1
    return StaticGrowth(config.shape, likeliest=likeliest and not repeats)


def _possible(tops: np.ndarray) -> list[int]:
    return np.isfinite(tops).sum(-1).tolist()


def _likeliest(nodes: Sequence[int], scores: Sequence[float], count: int) -> list[int]:
    """Return the ``count`` nodes with the highest scores, in the order of their indices.

    Among nodes with equal scores, earlier nodes in ``nodes`` take precedence.
    """
    ranked = sorted(nodes, key=lambda node: -scores[node])
    return sorted(ranked[:count])
