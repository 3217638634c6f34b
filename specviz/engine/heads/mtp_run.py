"""MTP layers in one run: their caches, and the chains and trees that they draft.

``specviz/engine/heads/mtp.py`` opens the layers and computes their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from specviz.engine.heads.head import HeadRun
from specviz.engine.model.trees import OpenNodes

if TYPE_CHECKING:
    from specviz.engine.heads.mtp import MtpHead


class MtpRun(HeadRun):
    """MTP layers with their caches.

    Row t of layer k reads token t + k + 1. So while drafting, the last k rows of layer k read
    candidates. These rows are computed again in a later round.
    """

    def __init__(self, head: MtpHead, capacity: int) -> None:
        from transformers.cache_utils import DynamicCache

        depth, like = len(head.layers), head.target.like
        self._head = head
        self._cache: Any = DynamicCache()
        self._kept = [0] * depth  # rows of each layer that read no candidate
        self._tokens = torch.zeros(capacity + depth, dtype=torch.long, device=like.device)
        # Zeros: attention multiplies masked rows by 0, which does not remove NaN.
        self._inputs = [like.new_zeros(capacity, head.target.width) for _ in range(depth - 1)]
        self._recycled = like.new_empty(0)
        self._step = 0
        self._nodes = OpenNodes()
        self._node_states = list[torch.Tensor]()  # outputs at the nodes

    @property
    def length(self) -> int:
        return self._kept[0]

    @torch.inference_mode()
    def begin(self, token_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        assert states.shape == (len(token_ids), self._head.target.width)
        self._drop_speculative()
        first = self.length
        self._kept[0] += len(token_ids)
        self._tokens[first : self.length] = token_ids
        self._step = 0
        return self._run_layer(0, first, states)

    @torch.inference_mode()
    def go_on(self, token_id: torch.Tensor) -> torch.Tensor:
        self._step += 1
        if len(self._kept) == 1:
            return self._recycle(token_id)
        layer = self._step
        self._tokens[self.length + layer - 1] = token_id[0]
        first = self._kept[layer]
        logits = self._run_layer(layer, first, self._inputs[layer - 1][first : self.length])
        self._kept[layer] = max(0, self.length - layer)
        return logits

    @torch.inference_mode()
    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        self._nodes.add(parents)
        first = self.length + len(self._nodes) - len(token_ids)
        self._tokens[first : first + len(token_ids)] = token_ids
        branch = self._branch_again if len(self._kept) == 1 else self._branch_deeper
        return self._head.target.output(branch(len(token_ids))).float()

    def forget(self, count: int) -> None:
        assert count <= self.length
        length = self.length - count
        self._kept = [min(kept, max(0, length - layer)) for layer, kept in enumerate(self._kept)]
        self._drop_speculative()

    def _recycle(self, token_id: torch.Tensor) -> torch.Tensor:
        """Run the only layer on its own previous output; return the logits."""
        row = self.length + self._step - 1
        self._tokens[row] = token_id[0]
        outputs, self._recycled = self._head.read_rows(
            0, self._read_tokens(row, row + 1), self._recycled, row, self._cache
        )
        return self._head.target.output(outputs).float()

    def _branch_again(self, count: int) -> torch.Tensor:
        """Run the only layer on the newest ``count`` nodes; return its normalised outputs."""
        first = len(self._nodes) - count
        tokens, states = self._node_inputs(self._recycled)
        positions = torch.tensor(self._nodes.depths(count), device=tokens.device) + self.length
        unseen = self._nodes.unseen(count, self.length, None)
        outputs, recycled = self._head.read_rows(
            0, tokens[first:], states[first:], self.length + first, self._cache,
            (positions, _additive(unseen, states)),
        )  # fmt: skip
        self._node_states.append(recycled)
        return outputs

    def _branch_deeper(self, count: int) -> torch.Tensor:
        """Run the next layer on all nodes; return its normalised outputs at the newest nodes.

        ``count``: the number of newest nodes; all of them have the same depth. If this depth is
        k - 1, the next layer is layer k. For a node of depth d, layer k has a row at position
        ``length - k + d``; the row reads the node, and the output of layer k - 1 for its parent.
        Before the rows of nodes, layer k reads the text's rows that it has not read yet.
        """
        depths = self._nodes.depths(len(self._nodes))
        layer = depths[-1] + 1
        assert depths[-count:] == [depths[-1]] * count, "a call adds nodes of one depth"
        above, first, text = self._inputs[layer - 1], self._kept[layer], self.length - layer
        node_tokens, node_states = self._node_inputs(above[max(0, text)][None])
        rows = torch.tensor(depths, device=node_tokens.device) + text
        text = max(0, text)
        outputs, recycled = self._head.read_rows(
            layer,
            torch.cat((self._read_tokens(first + layer, text + layer), node_tokens)),
            torch.cat((above[first:text], node_states)),
            first,
            self._cache,
            (
                torch.cat((torch.arange(first, text, device=rows.device), rows)),
                _additive(self._unseen(first, text, rows), node_states),
            ),
        )
        if layer < len(self._inputs):
            self._inputs[layer][first:text] = recycled[: text - first]
        self._kept[layer], self._node_states = text, [recycled[text - first :]]
        return outputs[-count:]

    def _node_inputs(self, root: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what a layer reads at all nodes: tokens, and the states of the nodes' parents.

        Args:
            root: `[1, width]`, the state for nodes whose parent is the text's newest token.
        """
        above = torch.tensor([path[-2] if path[1:] else -1 for path in self._nodes.paths])
        above = above.to(root.device)
        shifted = self._head.settings.shift_ids == 1
        own = torch.arange(len(above), device=root.device)
        tokens = self._tokens[(own if shifted else above) + self.length]
        return tokens, torch.cat([root, *self._node_states])[above + 1]

    def _unseen(self, first: int, text: int, rows: torch.Tensor) -> torch.Tensor:
        """Return for each new row which columns it does not attend to.

        The new rows are the text's rows from ``first`` on, then all nodes. The columns are the
        ``text`` rows of the text, then all nodes. If the text is short, the ``rows`` of some nodes
        are negative; no other node attends to these nodes.
        """
        count = len(self._nodes)
        nodes = self._nodes.unseen(count, text, None)
        nodes[:, text:] |= (rows.cpu() < 0)[None] & ~torch.eye(count, dtype=torch.bool)
        before = torch.ones(text - first, text + count, dtype=torch.bool).triu(first + 1)
        return torch.cat((before, nodes))

    def _run_layer(self, layer: int, first: int, states: torch.Tensor) -> torch.Tensor:
        """Run a layer on all rows from ``first`` on; return the logits of the newest row."""
        tokens = self._read_tokens(first + layer, self.length + layer)
        outputs, recycled = self._head.read_rows(layer, tokens, states, first, self._cache)
        self._recycled = recycled[-1:]
        if layer < len(self._inputs):
            self._inputs[layer][first : self.length] = recycled
        return self._head.target.output(outputs[-1:]).float()

    def _read_tokens(self, first: int, last: int) -> torch.Tensor:
        """Return the tokens whose embeddings a layer reads in its new rows.

        These are the stored tokens ``first`` to ``last - 1``. If ``shift_ids`` is 0, each token is
        replaced by the token before it; stored token 0 is not replaced.
        """
        if self._head.settings.shift_ids == 1:
            return self._tokens[first:last]
        earlier = torch.arange(first - 1, last - 1, device=self._tokens.device)
        return self._tokens[earlier.clamp_(min=0)]

    def _drop_speculative(self) -> None:
        self._nodes = OpenNodes()
        self._node_states.clear()
        for kept, layer in zip(self._kept, self._cache.layers, strict=False):
            if (excess := layer.get_seq_length() - kept) > 0:
                layer.crop(-excess)


def causal_mask(rows: torch.Tensor, first: int) -> torch.Tensor | None:
    """Return the causal mask of new rows after ``first`` cached rows; None if no mask is needed."""
    if len(rows) == 1 or first == 0:
        return None  # without a mask, attention over equally many rows and keys is causal
    total = first + len(rows)
    full = rows.new_full((len(rows), total), torch.finfo(rows.dtype).min)
    return full.triu(first + 1)[None, None]


def _additive(unseen: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return the additive attention mask `[1, 1, rows, columns]`; it hides what is ``unseen``."""
    mask = torch.zeros(unseen.shape, dtype=like.dtype, device=like.device)
    return mask.masked_fill_(unseen.to(like.device), torch.finfo(mask.dtype).min)[None, None]
