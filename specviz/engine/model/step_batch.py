"""Steps of one model that share their passes.

Every step has its own sequence in its own cache. A step can also make a pass alone, for example for
a prompt. ``feed`` makes one pass over the tokens of several steps: products multiply the rows of
all sequences, and every sequence attends to its own cache. In compiled code, a sequence's logits
are bit for bit the logits that its step would compute alone. In torch, the logits differ by
rounding, because products of more rows add in another order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from specviz.engine.model.compiled_step import CompiledStep, Rows
from specviz.engine.model.feeds import Feed
from specviz.engine.model.lean import LeanStep, feed_forward, rotary_table
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.step_capabilities import StepCapabilities
from specviz.engine.model.steps import StepWeights
from specviz.errors import PairError
from specviz.kernels.step import MOST_ROWS

_NO_PLACES = np.zeros(0, np.int64)
_PADDING = 0  # the token that fills padded rows; nothing reads what it gives


def require_lean(weights: StepWeights) -> LeanWeights:
    """Return the weights; raise PairError if their steps cannot share passes."""
    if not isinstance(weights, LeanWeights):
        raise PairError(
            "Several sequences share a pass only in the lean step.",
            remedy="Use a Llama, Mistral, Qwen2 or Qwen3 model, without `--step library`.",
        )
    return weights


class StepBatch(StepWeights):
    """Steps of one model for several sequences; one pass can feed them all.

    A batch can replace a pair's weights. Each run of the pair then gets the batch's next step.

    Args:
        padded: Whether all sequences have equally many rows in a pass. Rows without a token are
            computed and ignored, as in engines whose passes are rectangular. Without padding, a
            pass has rows only for the tokens that are fed, so it has no rows for sequences that
            have ended.
    """

    kind = "lean"

    def __init__(
        self,
        weights: StepWeights,
        vocabulary: int,
        capacity: int,
        size: int,
        *,
        padded: bool = False,
    ) -> None:
        self._weights = weights = require_lean(weights)
        self._vocabulary = vocabulary
        self._num_outputs = weights.num_outputs(vocabulary)
        self._padded = padded
        rows = capacity + MOST_ROWS  # padding may reach beyond the capacity
        like, width = weights.like, weights.head_width
        shape = (size, len(weights.layers), weights.key_heads, rows, width)
        self.keys = torch.empty(shape, dtype=like.dtype, device=like.device)
        self.values = torch.empty_like(self.keys)
        self.steps = tuple(
            LeanStep(weights, vocabulary, rows, (keys[:, None], values[:, None]))
            for keys, values in zip(self.keys, self.values, strict=True)
        )
        self._index = {id(step): index for index, step in enumerate(self.steps)}
        self._given = 0
        self._compiled = None
        if weights.compiled is not None:
            table = rotary_table(weights, rows)
            self._compiled = CompiledStep(weights.compiled, self.keys, self.values, *table)

    @property
    def capabilities(self) -> StepCapabilities:
        return self._weights.capabilities

    def step(self, vocabulary: int, capacity: int) -> LeanStep:
        """Return the next unused step of the batch."""
        assert vocabulary == self._vocabulary
        assert capacity + MOST_ROWS <= self.keys.shape[3]
        self._given += 1
        return self.steps[self._given - 1]

    def has(self, feed: Feed) -> bool:
        return id(feed.step) in self._index

    @torch.inference_mode()
    def feed(self, feeds: Sequence[Feed]) -> list[torch.Tensor]:
        """Feed tokens to several steps in one pass; return the logits of each feed."""
        rows = [self._rows(each) for each in feeds]
        token_ids = [each.token_ids for each in feeds]
        if self._padded:
            rows, token_ids = self._padding(rows, token_ids)
        outputs = [len(each.outputs) for each in rows]
        if self._compiled is None:
            logits = self._run_in_torch(torch.cat(token_ids), rows)
        else:
            logits = self._compiled.feed_rows(
                torch.cat(token_ids), rows, self._num_outputs, _NO_PLACES
            )
        logits = self._weights.whole(logits, self._vocabulary)
        for each, row in zip(feeds, rows, strict=False):
            step = self.steps[row.cache]
            step.set_position(step.length + each.token_ids.shape[0])
        return list(logits.split(outputs))[: len(feeds)]

    def _rows(self, feed: Feed) -> Rows:
        index, count = self._index[id(feed.step)], feed.token_ids.shape[0]
        assert 0 < count <= MOST_ROWS
        return Rows(
            cache=index,
            begin=feed.step.length,
            count=count,
            outputs=range(count - feed.num_logits, count),
        )

    def _padding(
        self, rows: Sequence[Rows], token_ids: Sequence[torch.Tensor]
    ) -> tuple[list[Rows], list[torch.Tensor]]:
        """Give every sequence, even an idle one, as many rows as the longest feed has."""
        count, most = max(each.count for each in rows), max(len(each.outputs) for each in rows)
        like = token_ids[0]
        padded = [
            Rows(cache=each.cache, begin=each.begin, count=count, outputs=each.outputs)
            for each in rows
        ]
        fed = [
            torch.cat((each, like.new_full((count - len(each),), _PADDING))) for each in token_ids
        ]
        busy = {each.cache for each in rows}
        for index, step in enumerate(self.steps):
            if index not in busy:
                padded.append(
                    Rows(
                        cache=index,
                        begin=step.length,
                        count=count,
                        outputs=range(count - most, count),
                    )
                )
                fed.append(like.new_full((count,), _PADDING))
        return padded, fed

    def _run_in_torch(self, token_ids: torch.Tensor, rows: Sequence[Rows]) -> torch.Tensor:
        """Run a pass in torch; return the logits of the rows in ``Rows.outputs``.

        Attention runs separately for each sequence.
        """
        weights, counts = self._weights, [each.count for each in rows]
        steps = [self.steps[each.cache] for each in rows]
        spans = [step.span(each.count) for step, each in zip(steps, rows, strict=True)]
        x = weights.embed(token_ids)
        for number, layer in enumerate(weights.layers):
            parts = layer.qkv(layer.attention_norm(x)).split(counts)
            mixed = [
                step.attended(number, part, span)
                for step, part, span in zip(steps, parts, spans, strict=True)
            ]
            x += layer.output(torch.cat(mixed))
            x += feed_forward(layer, x)
        first, wanted = 0, list[int]()
        for each in rows:
            wanted += (first + row for row in each.outputs)
            first += each.count
        x = weights.norm(x[torch.tensor(wanted, device=x.device)])
        return weights.head(x)[:, : self._num_outputs].float()
