"""The open nodes of a tree of candidates after a text, and the tokens that a node attends to.

A node is open until it is kept as text or dropped. Nodes are numbered as they are appended,
and follow the text in the cache in this order. A node attends to the text, its ancestors and
itself. Its position is the text's length plus its depth. Sliding windows apply to positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch


class OpenNodes:
    """The open nodes of a tree, as paths from the text.

    A node is open until it is kept as text or dropped. Its path contains its ancestors, from the
    top down, and then the node itself.
    """

    def __init__(self) -> None:
        self.paths: list[tuple[int, ...]] = []

    def __len__(self) -> int:
        return len(self.paths)

    def add(self, parents: Sequence[int]) -> None:
        for parent in parents:
            node = len(self.paths)
            assert -1 <= parent < node, "a parent comes before its children"
            self.paths.append((*self.paths[parent], node) if parent >= 0 else (node,))

    def settle(self, kept: Sequence[int]) -> None:
        """Close all nodes. The nodes ``kept``, a path from the end of the text, become text."""
        assert not kept or self.paths[kept[-1]] == tuple(kept), "the kept nodes are a path"
        self.paths.clear()

    def depths(self, count: int) -> list[int]:
        """Return the depths of the last ``count`` nodes; a node next to the text has depth 0."""
        return [len(path) - 1 for path in self.paths[len(self.paths) - count :]]

    def unseen(self, count: int, length: int, window: int | None, first: int = 0) -> torch.Tensor:
        """Return which tokens the last ``count`` nodes do not attend to.

        Returns:
            bool `[count, length - first + nodes]`; the columns are the text from position
            ``first`` on, then the open nodes.
        """
        hidden = np.ones((count, length - first + len(self.paths)), bool)
        for row, path in zip(hidden, self.paths[len(self.paths) - count :], strict=True):
            least = 0 if window is None else max(0, length + len(path) - window)
            row[max(0, least - first) : length - first] = False
            row[[length - first + node for node in path[max(0, least - length) :]]] = False
        return torch.from_numpy(hidden)
