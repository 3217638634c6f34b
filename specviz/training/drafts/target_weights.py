"""The target's weights in float32, with which a draft is initialised and trained."""

from __future__ import annotations

from typing import Any

import torch

from specviz.engine import Pair
from specviz.engine.model.lean_weights import LeanLayer, LeanWeights
from specviz.engine.model.packed_weights import PackedProduct
from specviz.engine.model.product import Product
from specviz.errors import TrainingError
from specviz.values import Value


class TargetWeights(Value, eq=False):
    name: str
    config: Any  # of transformers, or a ``PlainConfig``
    lean: LeanWeights
    vocabulary: int  # tokens; the embedding may have more rows
    output: torch.Tensor  # [vocabulary, width]

    @staticmethod
    def of(pair: Pair) -> TargetWeights:
        """Return the weights of a pair's target.

        Raises:
            TrainingError: The target has a simulated size, or an architecture that specviz's own
                forward pass (the lean step) does not support.
        """
        lean = pair.target_weights
        if pair.info.target.body is not None:
            raise TrainingError(
                "The simulated size does not change the texts that the target writes.",
                remedy="Train without a simulated size; the draft also works with one.",
            )
        if not isinstance(lean, LeanWeights):
            raise TrainingError(
                f"{pair.info.target.name} has no lean step, and training needs a lean step.",
                remedy="Choose a Llama, Mistral, Qwen2 or Qwen3 model, with the lean step.",
            )
        return TargetWeights(
            name=pair.info.target.name,
            config=pair.target.config,
            lean=lean,
            vocabulary=pair.vocabulary,
            output=matrix_of(lean.head)[: pair.vocabulary],
        )

    @property
    def width(self) -> int:
        return int(self.lean.norm.weight.shape[0])

    @property
    def layers(self) -> tuple[LeanLayer, ...]:
        return self.lean.layers

    @property
    def inner(self) -> int:
        """Return the width inside the feed-forward."""
        return matrix_of(self.layers[-1].down).shape[1]

    @property
    def eps(self) -> float:
        return self.lean.norm.eps

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the embeddings `[text, token, width]`."""
        with torch.no_grad():
            return self.lean.embed(ids.reshape(-1)).view(*ids.shape, -1).float()


def matrix_of(product: Product) -> torch.Tensor:
    """Return a product's matrix in float32; a quantised matrix is dequantised."""
    if isinstance(product, PackedProduct):
        return torch.cat([each.dequantised() for each in product.matrices])
    return product.weight.detach().float()
