"""Run the target over many texts at once, in torch, with the weights of ``engine.model.lean``.

Each pass loads the weights once for all texts, so writing 64 texts together takes only a few times
as long as writing one. Each text has its own random numbers, so it does not depend on the other
texts, apart from rounding.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F

from specviz.engine.model.lean import feed_forward, rotary_table, rotated
from specviz.engine.model.lean_weights import LeanLayer, LeanWeights
from specviz.engine.model.step_capabilities import AFTER_NORM

_REFILL = 8  # texts that begin in one pass
_CACHE_BYTES = 2 << 30  # of all texts together, in main memory


@dataclass(slots=True, eq=False, kw_only=True)
class Writing:
    """A text that the target continues."""

    ids: list[int]
    most: int  # upper limit of new tokens
    temperature: float
    draws_by: Sequence[int]  # the seed of its draws
    new: list[int] = field(default_factory=list[int])
    ended: bool = False  # by a token that ends a text; that token is the last of ``new``


@dataclass(frozen=True, slots=True, eq=False)
class _Cache:
    """Keys and values `[layer, text, key_head, row, head_width]`."""

    keys: torch.Tensor
    values: torch.Tensor

    def part(self, first: int, count: int) -> _Cache:
        """Return a view of the cache for ``count`` texts from text ``first`` on."""
        return _Cache(self.keys.narrow(1, first, count), self.values.narrow(1, first, count))


class BatchedTarget:
    def __init__(self, weights: LeanWeights, vocabulary: int, longest: int) -> None:
        self.weights = weights
        self.vocabulary = vocabulary
        self.longest = longest  # tokens of a text
        self._cos, self._sin = rotary_table(weights, longest)

    @property
    def device(self) -> torch.device:
        return self.weights.like.device

    @torch.inference_mode()
    def states(self, ids: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
        """Return the hidden states `[text, token, place, width]` of texts `[text, token]`.

        The caller pads shorter texts at their ends with any tokens. ``places`` says at which
        layers the states are taken, as in ``HiddenStates``.
        """
        texts, count = ids.shape
        cache = self._cache(texts, count)
        positions = torch.arange(count, device=ids.device).expand(texts, count)
        streams = dict[int, torch.Tensor]()
        x = self._pass(ids, positions, cache, streams, places)
        streams[AFTER_NORM] = self.weights.norm(x)
        return torch.stack([streams[place] for place in places], 2)

    def logits(self, normed: torch.Tensor) -> torch.Tensor:
        """Return the logits `[row, vocabulary]` of states after the final norm `[row, width]`."""
        return self.weights.head(normed)[:, : self.vocabulary].float()

    @torch.inference_mode()
    def write(self, texts: Sequence[Writing], ends: frozenset[int], together: int) -> Iterator[int]:
        """Continue all texts, ``together`` at once; yield how many tokens were written so far.

        A text ends at its limit or at a token in ``ends``. On a CPU, fewer texts are written at
        once if their cache would exceed ``_CACHE_BYTES``.
        """
        waiting = [each for each in map(_Open, reversed(texts)) if not each.over]
        going = list[_Open]()
        rows = max(len(each.ids) + each.most for each in texts)
        together = min(together, len(texts), self._most_together(rows))
        cache = self._cache(together, rows)
        written = 0
        while waiting or going:
            free = together - len(going)
            if waiting and free >= min(_REFILL, together):
                begun = [waiting.pop() for _ in range(min(free, len(waiting)))]
                self._begin(begun, cache, len(going), ends)
                going += begun
                written += len(begun)
            _close(going, cache)
            if going:
                self._go_on(going, cache, ends)
                written += len(going)
                _close(going, cache)
            yield written

    def _most_together(self, rows: int) -> int:
        """Return how many texts may be in the cache at once if each has ``rows`` tokens."""
        weights = self.weights
        if self.device.type != "cpu":
            return sys.maxsize
        values = 2 * len(weights.layers) * weights.key_heads * rows * weights.head_width
        return max(1, _CACHE_BYTES // (values * weights.like.dtype.itemsize))

    def _begin(
        self, begun: Sequence[_Open], cache: _Cache, first: int, ends: frozenset[int]
    ) -> None:
        """Prefill the cache with the prompts of new texts, and draw their first tokens."""
        length = max(each.length for each in begun)
        ids = torch.zeros(len(begun), length, dtype=torch.long)
        for row, each in enumerate(begun):
            ids[row, : each.length] = torch.tensor([*each.text.ids, *each.text.new])
        last = torch.tensor([each.length - 1 for each in begun], device=self.device)
        positions = torch.arange(length, device=self.device).expand(len(begun), length)
        x = self._pass(ids.to(self.device), positions, cache.part(first, len(begun)))
        self._draw(begun, x[torch.arange(len(begun), device=self.device), last], ends)

    def _go_on(self, going: Sequence[_Open], cache: _Cache, ends: frozenset[int]) -> None:
        """Draw one more token for each unfinished text."""
        ids = torch.tensor([[each.text.new[-1]] for each in going], device=self.device)
        positions = torch.tensor([[each.length - 1] for each in going], device=self.device)
        x = self._pass(ids, positions, cache.part(0, len(going)))
        self._draw(going, x[:, 0], ends)

    def _draw(self, texts: Sequence[_Open], last: torch.Tensor, ends: frozenset[int]) -> None:
        logits = self.logits(self.weights.norm(last))
        chosen = logits.argmax(-1)
        warm = [row for row, each in enumerate(texts) if each.text.temperature > 0]
        if warm:
            temperatures = torch.tensor([texts[row].text.temperature for row in warm])
            probs = (logits[warm] / temperatures.to(logits)[:, None]).softmax(-1)
            uniforms = torch.tensor([texts[row].uniform for row in warm]).to(probs)
            below = probs.cumsum(-1) <= uniforms[:, None] * probs.sum(-1, keepdim=True)
            chosen[warm] = below.sum(-1).clamp_(max=self.vocabulary - 1)
        for each, token in zip(texts, chosen.tolist(), strict=True):
            each.text.new.append(token)
            each.text.ended = token in ends

    def _cache(self, texts: int, rows: int) -> _Cache:
        assert rows <= self.longest
        weights = self.weights
        shape = (len(weights.layers), texts, weights.key_heads, rows, weights.head_width)
        keys = torch.zeros(shape, dtype=weights.like.dtype, device=self.device)
        return _Cache(keys, torch.zeros_like(keys))

    def _pass(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        cache: _Cache,
        streams: dict[int, torch.Tensor] | None = None,
        places: Sequence[int] = (),
    ) -> torch.Tensor:
        """Feed tokens `[text, token]`; return the residual stream after the last layer."""
        texts, count = ids.shape
        end = int(positions.max()) + 1
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        masks = {w: _mask(positions, end, w) for w in {each.window for each in self.weights.layers}}
        x = self.weights.embed(ids.reshape(-1)).view(texts, count, -1)
        for number, layer in enumerate(self.weights.layers):
            if streams is not None and number in places:
                streams[number] = x
            keys, values = cache.keys[number], cache.values[number]
            x = x + self._attend(layer, x, keys, values, positions, cos, sin, masks)
            x = x + feed_forward(layer, x)
        if streams is not None:
            streams[len(self.weights.layers)] = x
        return x

    def _attend(
        self,
        layer: LeanLayer,
        x: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        positions: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        masks: dict[int | None, torch.Tensor],
    ) -> torch.Tensor:
        weights, (texts, count, _) = self.weights, x.shape
        heads, key_heads, width = weights.heads, weights.key_heads, weights.head_width
        fused = layer.qkv(layer.attention_norm(x)).view(texts, count, -1, width).transpose(1, 2)
        turned = rotated(layer, fused, (heads, key_heads), cos, sin)
        mask = masks[layer.window]
        _store(keys, positions, turned.narrow(1, heads, key_heads))
        _store(values, positions, fused.narrow(1, heads + key_heads, key_heads))
        seen = mask.shape[-1]
        # Queries that share a key head become rows of one product, so that keys are not repeated.
        grouped = turned.narrow(1, 0, heads).reshape(texts, key_heads, -1, width)
        mixed = F.scaled_dot_product_attention(
            grouped,
            keys[:, :, :seen],
            values[:, :, :seen],
            attn_mask=mask.repeat(1, 1, heads // key_heads, 1),
        )
        mixed = mixed.view(texts, heads, count, width).transpose(1, 2)
        return layer.output(mixed.reshape(texts, count, heads * width))


@dataclass(slots=True, eq=False)
class _Open:
    """A text that is being written, with a random number for each of its new tokens."""

    text: Writing
    _uniforms: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        generator = np.random.default_rng(list(self.text.draws_by))
        self._uniforms = generator.random(self.text.most)

    @property
    def uniform(self) -> float:
        return float(self._uniforms[len(self.text.new)])

    @property
    def length(self) -> int:
        return len(self.text.ids) + len(self.text.new)

    @property
    def over(self) -> bool:
        return self.text.ended or len(self.text.new) >= self.text.most


def _mask(positions: torch.Tensor, end: int, window: int | None) -> torch.Tensor:
    """Return which cache rows each token attends to, `[text, 1, token, row]`."""
    row = torch.arange(end, device=positions.device)
    seen = row <= positions[:, :, None]
    if window is not None:
        seen &= row > positions[:, :, None] - window
    return seen[:, None]


def _store(cache: torch.Tensor, positions: torch.Tensor, new: torch.Tensor) -> None:
    """Write new keys or values `[text, key_head, token, width]` to the cache."""
    texts = torch.arange(cache.shape[0], device=cache.device)
    cache[texts[:, None], :, positions] = new.transpose(1, 2)


def _close(going: list[_Open], cache: _Cache) -> None:
    """Remove finished texts. After each removal, the last text moves to the free cache slot."""
    for place in reversed(range(len(going))):
        if not going[place].over:
            continue
        last = going.pop()
        if place < len(going):
            going[place] = last
            for each in (cache.keys, cache.values):
                each[:, place] = each[:, len(going)]
