"""EAGLE-1, EAGLE-2 and EAGLE-3 heads.

Row t joins the target's state at token t with the embedding of token t + 1, and predicts token
t + 2. While drafting, the head reads its own last state instead of the target's state, which is not
known yet. EAGLE-1 and EAGLE-2 heads have the same architecture and read the target's final state;
EAGLE-3 heads read several of its hidden states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F

from specviz.engine.heads.eagle_checks import check_target, joined_states, logit_scale
from specviz.engine.heads.eagle_settings import (
    EagleSettings,
    check_places,
    read_settings,
    reads_final_state,
)
from specviz.engine.heads.eagle_shape import read_shape
from specviz.engine.heads.eagle_weights import EagleWeights, WeightsReader
from specviz.engine.heads.head import Head, HeadKind, HeadRun, TargetParts
from specviz.engine.heads.tensors import read_head_tensors
from specviz.engine.model.lean import feed_forward, rotary_table, rotated
from specviz.engine.model.product import Product
from specviz.engine.model.step_capabilities import Offered
from specviz.engine.model.trees import OpenNodes
from specviz.errors import PairError
from specviz.formats.heads import HeadFacts


class EagleHead(Head[EagleWeights, EagleSettings]):
    """An EAGLE-1 or EAGLE-2 head; the base of EAGLE-3 heads."""

    kind: ClassVar[HeadKind] = "eagle"
    method: ClassVar[str] = "eagle"

    def _check_settings(self) -> None:
        needed = {
            "norm_before_residual": self.weights.layers[0].state_norm,
            "norm_before_fc": self.weights.joined_norm,
            "fc_norm": self.weights.chunk_norms or None,
            "recycle_normed": self.weights.norm,
        }
        for name, norm in needed.items():
            if getattr(self.settings, name) and norm is None:
                raise PairError(f"The head has no weights for {name}.", remedy="Switch it off.")
        check_places(self.settings.places, self.weights.states, self.target.layers)

    @property
    def products(self) -> Sequence[Product]:
        return self.weights.products

    @property
    def reads_own_output(self) -> bool:
        return self.weights.logits.own_matrix is not None

    @property
    def most_candidates(self) -> int | None:
        return None

    @property
    def proposable(self) -> torch.Tensor | None:
        return self.weights.logits.proposable

    @property
    def trees(self) -> Offered:
        return True

    def start(self, capacity: int) -> EagleRun:
        return EagleRun(self, capacity)

    def fuse(self, states: torch.Tensor) -> torch.Tensor:
        """Return the head's input states `[rows, width]` for the target's joined states."""
        return states

    def enter(
        self, embedding: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the residual stream before the first layer, and the first attention's input."""
        assert self.weights.fusion is not None, "EAGLE-1 heads have fc"
        x = self.weights.fusion(self._join(embedding, state))
        return x, x

    def _join(self, embedding: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        pair = (embedding, state) if self.settings.embedding_first else (state, embedding)
        return torch.cat(pair, -1)


class Eagle3Head(EagleHead):
    kind: ClassVar[HeadKind] = "eagle3"

    def fuse(self, states: torch.Tensor) -> torch.Tensor:
        weights, settings = self.weights, self.settings
        if settings.norm_before_fc and weights.joined_norm is not None:
            states = weights.joined_norm(states)
        if settings.fc_norm:
            parts = states.chunk(weights.states, -1)
            normed = [norm(part) for norm, part in zip(weights.chunk_norms, parts, strict=True)]
            states = torch.cat(normed, -1)
        return states if weights.fusion is None else weights.fusion(states)

    def enter(
        self, embedding: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        first = self.weights.layers[0]
        assert first.input_norm is not None
        assert first.state_norm is not None
        normed = first.state_norm(state)
        residual = normed if self.settings.norm_before_residual else state
        return residual, self._join(first.input_norm(embedding), normed)


class EagleRun(HeadRun):
    def __init__(self, head: EagleHead, capacity: int) -> None:
        weights: Any = head.weights  # has the fields that ``rotary_table`` reads
        self._head = head
        self._weights = head.weights
        self._capacity = capacity
        self._length = 0
        self._drafted = 0  # rows computed from the head's own states
        self._state: torch.Tensor | None = None  # the last row's, to continue from
        self._nodes = OpenNodes()
        self._node_states = list[torch.Tensor]()  # the nodes' states, for each call of ``branch``
        self._cos, self._sin = rotary_table(weights, capacity)
        self._keys, self._values = _empty_caches(head.weights, capacity)
        self._ids = torch.zeros(capacity, dtype=torch.long, device=head.weights.like.device)

    @property
    def length(self) -> int:
        return self._length

    @torch.inference_mode()
    def begin(self, token_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        self._drop_drafted()
        logits = self._append(token_ids, self._head.fuse(states))
        self._length += len(token_ids)
        return logits

    @torch.inference_mode()
    def go_on(self, token_id: torch.Tensor) -> torch.Tensor:
        assert self._state is not None, "begin comes first"
        logits = self._append(token_id, self._state)
        self._drafted += 1
        return logits

    @torch.inference_mode()
    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        assert self._state is not None, "begin comes first"
        count, device = len(token_ids), token_ids.device
        begin = self._length + self._drafted
        self._nodes.add(parents)
        self._drafted += count
        above = torch.tensor(parents, device=device)
        states = torch.cat([self._state, *self._node_states])[above + 1]
        positions = torch.tensor(self._nodes.depths(count), device=device) + self._length
        mask = ~self._nodes.unseen(count, self._length, None).to(device)
        self._ids[begin : begin + count] = token_ids
        shifted = self._head.settings.shift_ids == 1
        embedded = token_ids if shifted else self._ids[above + self._length]
        x = self._read(embedded, states, begin, mask, positions)
        state, logits = self._outputs(x)
        self._node_states.append(state)
        return logits

    def forget(self, count: int) -> None:
        assert 0 <= count <= self._length
        self._length -= count
        self._drop_drafted()
        self._state = None

    def _drop_drafted(self) -> None:
        self._drafted = 0
        self._nodes = OpenNodes()
        self._node_states.clear()

    def _append(self, token_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Append consecutive rows; store the last row's state and return its logits."""
        begin = self._length + self._drafted
        end = begin + len(token_ids)
        ids = self._shifted(token_ids, begin, end)
        x = self._read(ids, states, begin, self._mask(begin, end))
        self._state, logits = self._outputs(x[-1:])
        return logits

    def _read(
        self,
        token_ids: torch.Tensor,
        states: torch.Tensor,
        begin: int,
        mask: torch.Tensor | None,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Write rows from ``begin`` on into the caches; return the last layer's output.

        ``positions``: the rows' positions; None if they equal the rows' indices in the caches.
        """
        weights, head = self._weights, self._head
        end = begin + len(token_ids)
        assert end <= self._capacity
        x, attended = head.enter(weights.embed(token_ids), states)
        for index, layer in enumerate(weights.layers):
            if index > 0:
                assert layer.input_norm is not None
                attended = layer.input_norm(x)
            x = x + self._attend(index, attended, begin, end, mask, positions)
            x = x + feed_forward(layer, x)
        return x

    def _outputs(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the states from which later candidates are drafted, and the logits."""
        normed = x if self._weights.norm is None else self._weights.norm(x)
        recycled = normed if self._head.settings.recycle_normed else x
        return recycled, self._weights.logits(normed)

    def _shifted(self, token_ids: torch.Tensor, begin: int, end: int) -> torch.Tensor:
        """Return the tokens whose embeddings the head reads in the rows ``begin`` to ``end - 1``.

        Row t reads token t + ``shift_ids``, but row 0 always reads token 1. ``token_ids``: the
        tokens ``begin + 1`` to ``end`` of the text.
        """
        if self._head.settings.shift_ids == 1:
            return token_ids
        self._ids[begin:end] = token_ids
        earlier = torch.arange(begin - 1, end - 1, device=self._ids.device)
        return self._ids[earlier.clamp_(min=0)]

    def _mask(self, begin: int, end: int) -> torch.Tensor | None:
        """Return a mask that shows which rows each new row sees.

        Return None for a single new row, which sees all rows.
        """
        if end - begin == 1:
            return None
        seen = torch.ones(end - begin, end, dtype=torch.bool, device=self._cos.device)
        return seen.tril_(begin)

    def _attend(
        self,
        index: int,
        x: torch.Tensor,
        begin: int,
        end: int,
        mask: torch.Tensor | None,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        layer, shape = self._weights.layers[index], self._weights.shape
        heads, key_heads, width = shape.heads, shape.key_heads, shape.head_width
        count = end - begin
        rows = layer.qkv(x).view(1, count, -1, width).transpose(1, 2)
        places = slice(begin, end) if positions is None else positions
        turned = rotated(layer, rows, (heads, key_heads), self._cos[places], self._sin[places])
        keys, values = self._keys[index], self._values[index]
        keys.narrow(2, begin, count).copy_(turned.narrow(1, heads, key_heads))
        values.narrow(2, begin, count).copy_(rows.narrow(1, heads + key_heads, key_heads))
        mixed = F.scaled_dot_product_attention(
            turned.narrow(1, 0, heads),
            keys.narrow(2, 0, end),
            values.narrow(2, 0, end),
            attn_mask=mask,
            enable_gqa=heads != key_heads,
        )
        return layer.output(mixed.transpose(1, 2).reshape(count, heads * width))


def open_eagle(facts: HeadFacts, target: TargetParts) -> EagleHead:
    """Return a head with its weights on the target's device, checked against the target.

    Raises:
        ModelFileError: A file is damaged, or the weights do not match the configuration.
        PairError: The head was made for another target.
    """
    assert facts.kind in ("eagle", "eagle3")
    eagle3 = facts.kind == "eagle3"
    shape = read_shape(facts)
    check_target(facts, shape, target)
    tensors, notices = read_head_tensors(facts, target.like)
    fused = not (eagle3 and reads_final_state(facts))
    count = joined_states(tensors, target) if eagle3 and fused else 1
    stored = {"input_norm": "input_norm.weight", "fc_norm": "fc_norm.0.weight"}
    optional = frozenset(name for name, tensor in stored.items() if tensor in tensors)
    settings, more = read_settings(facts, target, count, optional)
    reader = WeightsReader(tensors, shape, target, layout_is_eagle3=eagle3)
    weights = reader.read(count, fused=fused, logit_scale=logit_scale(facts))
    return (Eagle3Head if eagle3 else EagleHead)(weights, target, settings, (*notices, *more))


def _empty_caches(weights: EagleWeights, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return memory for keys and values `[layer, 1, key_head, row, head_width]`."""
    shape = weights.shape
    size = (shape.layers, 1, shape.key_heads, capacity, shape.head_width)
    like = weights.like
    keys = torch.empty(size, dtype=like.dtype, device=like.device)
    return keys, torch.empty_like(keys)
