"""The step: the one small interface through which the loop speaks to a model.

A step feeds tokens, keeps their keys and values, and forgets by length. Two kinds of weights stand
behind it: *library* here (any family, through transformers) and *lean* (``lean.py``). A
third with static caches and CUDA graphs can stand beside them: state stays on the device,
rollback is a length, and nothing here asks the device for a value.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from transformers import DynamicCache, PreTrainedModel


class Step(Protocol):
    """One model with its cache."""

    @property
    def length(self) -> int:
        """Tokens held in the cache."""
        ...

    @property
    def device(self) -> torch.device: ...

    @property
    def hidden(self) -> torch.Tensor | None:
        """Last hidden states behind the latest logits, [num_logits, width], for drafters.

        After a prefill, those of its last token. None where they were not asked for.
        """
        ...

    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        """Append tokens [num_tokens]; float32 logits [num_logits, vocabulary] of the last ones.

        With ``num_logits`` 0 (a prefill) what is returned means nothing.
        """
        ...

    def forget(self, count: int) -> None:
        """Drop the last ``count`` tokens from the cache."""
        ...


class LibraryStep:
    """Any family of transformers whose cache can be rolled back.

    A plain ``DynamicCache`` keeps every position, and the mask applies a sliding window;
    so rollback is exact for window models too.
    """

    def __init__(
        self, model: PreTrainedModel, vocabulary: int, *, keep_hidden: bool = False
    ) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._cache = DynamicCache()
        self._keep_hidden = keep_hidden
        self._hidden: torch.Tensor | None = None

    @property
    def length(self) -> int:
        return int(self._cache.get_seq_length())

    @property
    def device(self) -> torch.device:
        embedding: Any = self._model.get_input_embeddings()
        return embedding.weight.device

    @property
    def hidden(self) -> torch.Tensor | None:
        return self._hidden

    @torch.inference_mode()
    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        count = max(1, num_logits)
        output = self._model(
            token_ids[None],
            past_key_values=self._cache,
            use_cache=True,
            output_hidden_states=self._keep_hidden,
            logits_to_keep=count,
        )
        if self._keep_hidden:
            self._hidden = output.hidden_states[-1][0, -count:]
        return output.logits[0, -count:, : self._vocabulary].float()

    def forget(self, count: int) -> None:
        if count:
            self._cache.crop(-count)
