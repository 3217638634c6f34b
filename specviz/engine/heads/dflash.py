"""DFlash: a drafter that fills a block of masked tokens in one pass.

The block is the text's newest token (the anchor), then mask tokens. The block's rows attend to each
other in both directions, and to keys and values computed from the target's hidden states of all
earlier tokens. The cache keeps the keys and values of the text; the next round overwrites the keys
and values of the block. ``specviz/engine/heads/dflash_weights.py`` loads files of z-lab and of the
speculators library.
"""

from __future__ import annotations

from typing import ClassVar, Self

import torch
import torch.nn.functional as F

from specviz.engine.heads.dflash_weights import (
    DFlashLayer,
    DFlashSettings,
    DFlashWeights,
    read_dflash,
)
from specviz.engine.heads.head import Head, HeadKind, HeadRun, TargetParts
from specviz.formats.heads import HeadFacts

__all__ = ["DFlashHead", "DFlashSettings", "open_dflash"]


def open_dflash(facts: HeadFacts, target: TargetParts) -> DFlashHead:
    """Return a DFlash head with its weights, on the target's device and in its dtype.

    Raises:
        ModelFileError: A tensor or a setting is missing, unknown or not valid.
        PairError: The head does not fit the target.
    """
    weights, settings, notices = read_dflash(facts, target)
    return DFlashHead(weights, target, settings, notices)


class DFlashHead(Head[DFlashWeights, DFlashSettings]):
    kind: ClassVar[HeadKind] = "dflash"
    method: ClassVar[str] = "dflash"

    @property
    def most_candidates(self) -> int:
        return self.weights.block_size - (0 if self.settings.sample_from_anchor else 1)

    @property
    def proposable(self) -> torch.Tensor | None:
        return self.weights.logits.proposable

    def with_settings(self, settings: DFlashSettings) -> Self:
        assert len(settings.places) == len(self.settings.places)
        return super().with_settings(settings)

    def start(self, capacity: int) -> _DFlashRun:
        return _DFlashRun(self, capacity)

    def block(self, anchor: torch.Tensor) -> torch.Tensor:
        """Return the embeddings `[block_size, width]` of a block: ``anchor``, then mask tokens."""
        masks, given = self.weights.block_size - 1, self.weights.mask_embedding
        if given is not None:
            return torch.cat((self._embedded(anchor), given.expand(masks, -1)))
        return self._embedded(torch.cat((anchor, anchor.new_full((masks,), self._mask))))

    @property
    def _mask(self) -> int:
        return self.settings.mask_token_id

    def _embedded(self, token_ids: torch.Tensor) -> torch.Tensor:
        if self.weights.embedding is None:
            return self.target.embed(token_ids)
        return F.embedding(token_ids, self.weights.embedding)

    def context(self, states: torch.Tensor) -> torch.Tensor:
        """Return the rows `[rows, width]` from which all layers compute the text's keys and values.

        ``states``: the target's hidden states of several layers, joined.
        """
        return self.norm(F.linear(states, self.weights.fusion), self.weights.context_norm)

    def norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        normalised = F.rms_norm(x.float(), x.shape[-1:], None, self.weights.shape.eps)
        return weight * normalised.to(x.dtype)

    def logits(self, rows: torch.Tensor) -> torch.Tensor:
        """Return logits `[candidates, vocabulary]` of the rows that propose candidates."""
        drafting = rows if self.settings.sample_from_anchor else rows[1:]
        return self.weights.logits(self.norm(drafting, self.weights.final_norm))

    def mask(self, layer: DFlashLayer, length: int) -> torch.Tensor | None:
        """Return a mask that shows which keys each row sees; None if every row sees all keys.

        The keys belong to the text's first ``length`` tokens, and then to the tokens of the block.
        """
        window, size = self.weights.window, self.weights.block_size
        if not layer.sliding or window is None:
            return None
        keys = torch.arange(length + size, device=self.target.like.device)
        rows = keys[length:, None]
        if self.settings.window_from == "anchor":
            seen = (keys >= length - window).expand(size, -1)
        else:
            seen = (rows - keys < window) & (keys - rows < window)
        return seen & (keys <= rows) if self.settings.causal_windows else seen


class _DFlashRun(HeadRun):
    def __init__(self, head: DFlashHead, capacity: int) -> None:
        weights, like = head.weights, head.target.like
        rows = capacity + weights.block_size
        shape = (weights.shape.key_heads, rows, weights.shape.head_width)
        self._head = head
        self._length = 0
        self._keys = [like.new_empty(shape) for _ in weights.layers]
        self._values = [like.new_empty(shape) for _ in weights.layers]
        self._logits = like.new_empty(0)
        self._row = 0

    @property
    def length(self) -> int:
        return self._length

    @torch.inference_mode()
    def begin(self, token_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        assert states.shape == (len(token_ids), self._head.weights.fusion.shape[1])
        context = self._head.context(states)
        rows = self._head.block(token_ids[-1:])
        first, self._length = self._length, self._length + len(context)
        cos, sin = self._rotation(first, rows)
        for index, layer in enumerate(self._head.weights.layers):
            rows = rows + self._attention(index, layer, rows, context, cos, sin)
            normed = self._head.norm(rows, layer.after_norm)
            gated = F.silu(F.linear(normed, layer.gate)) * F.linear(normed, layer.up)
            rows = rows + F.linear(gated, layer.down)
        self._logits = self._head.logits(rows)
        self._row = 0
        return self._logits[:1]

    @torch.inference_mode()
    def go_on(self, token_id: torch.Tensor) -> torch.Tensor:
        del token_id  # the logits of all candidates were computed together
        self._row += 1
        assert self._row < len(self._logits)
        return self._logits[self._row : self._row + 1]

    def forget(self, count: int) -> None:
        assert count <= self._length
        self._length -= count

    def _attention(
        self,
        index: int,
        layer: DFlashLayer,
        rows: torch.Tensor,
        context: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
    ) -> torch.Tensor:
        head = self._head
        normed = head.norm(rows, layer.before_norm)
        both = torch.cat((context, normed))
        end = self._length + len(rows)
        keys = head.norm(self._split(layer.key(both)), layer.key_norm)
        span = slice(end - len(both), end)
        self._keys[index][:, span] = _rotated(keys, cos, sin)
        self._values[index][:, span] = self._split(layer.value(both))
        query = head.norm(self._split(layer.query(normed)), layer.query_norm)
        mixed = F.scaled_dot_product_attention(
            _rotated(query, cos[-len(rows) :], sin[-len(rows) :])[None],
            self._keys[index][None, :, :end],
            self._values[index][None, :, :end],
            attn_mask=head.mask(layer, self._length),
            enable_gqa=len(query) != len(keys),
        )[0]
        return layer.output(mixed.transpose(0, 1).flatten(1))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        """Return `[rows, heads * head_width]` as `[heads, rows, head_width]`."""
        return x.unflatten(1, (-1, self._head.weights.shape.head_width)).transpose(0, 1)

    def _rotation(self, first: int, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return RoPE's cos and sin `[rows, head_width]` for the new tokens and the block."""
        shape, end = self._head.weights.shape, self._length + len(rows)
        positions = torch.arange(first, end, dtype=torch.float32, device=rows.device)
        angles = positions[:, None] * shape.inverse_frequencies
        both = torch.cat((angles, angles), -1)
        return (both.cos() * shape.rope_scale).to(rows), (both.sin() * shape.rope_scale).to(rows)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin
