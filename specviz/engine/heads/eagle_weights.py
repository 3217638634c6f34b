"""The weights of an EAGLE head, checked against its configuration and its target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from specviz.engine.heads.draft_vocabulary import DraftLogits, read_logits
from specviz.engine.heads.eagle_shape import EagleShape
from specviz.engine.heads.head import TargetParts
from specviz.engine.heads.tensors import HeadTensors
from specviz.engine.model.lean_weights import Norm
from specviz.engine.model.product import Product
from specviz.errors import PairError
from specviz.values import Value

_NOT_READ = ("rotary_emb.inv_freq", "verifier_lm_head.weight", "verifier_norm.weight")
_THIS_TARGET = "Use a head that was trained for this target."


class EagleLayer(Value, eq=False):
    """The weights of one decoder layer.

    The first layer of EAGLE-1 has no norm before its attention. The first layer of EAGLE-3
    normalises the embedding and the state separately, and joins the results.
    """

    input_norm: Norm | None
    state_norm: Norm | None
    qkv: Product
    query_norm: Norm | None
    key_norm: Norm | None
    output: Product
    feed_forward_norm: Norm
    gate_up: Product
    down: Product


class EagleWeights(Value, eq=False):
    shape: EagleShape
    states: int  # how many of the target's states the head joins
    embed: Callable[[torch.Tensor], torch.Tensor]
    fusion: Product | None  # ``fc``
    joined_norm: Norm | None
    chunk_norms: tuple[Norm, ...]
    layers: tuple[EagleLayer, ...]
    norm: Norm | None
    logits: DraftLogits
    like: torch.Tensor

    @property
    def inverse_frequencies(self) -> torch.Tensor:
        return self.shape.inverse_frequencies.to(self.like.device)

    @property
    def products(self) -> list[Product]:
        """Return the matrix products that use the head's own weights."""
        products = [self.fusion, self.logits.own_matrix]
        for each in self.layers:
            products += [each.qkv, each.output, each.gate_up, each.down]
        return [each for each in products if each is not None]

    @property
    def parameters(self) -> list[torch.Tensor]:
        """Return the head's own weights without its embedding."""
        norms = [self.joined_norm, *self.chunk_norms, self.norm]
        for each in self.layers:
            norms += [each.input_norm, each.state_norm, each.query_norm, each.key_norm]
            norms.append(each.feed_forward_norm)
        products = self.products
        weights = [each.weight for each in (*norms, *products) if each is not None]
        return weights + [each.bias for each in products if each.bias is not None]

    @property
    def rope_scale(self) -> float:
        return self.shape.rope_scale


@dataclass(frozen=True, slots=True, eq=False)
class WeightsReader:
    """Takes an EAGLE head's weights out of its tensors."""

    tensors: HeadTensors
    shape: EagleShape
    target: TargetParts
    layout_is_eagle3: bool

    def read(self, states: int, *, fused: bool, logit_scale: float) -> EagleWeights:
        """Return all weights.

        Args:
            states: The number of the target's states that the head joins.
            fused: Whether the head has the matrix ``fc``.
            logit_scale: The factor that scales the logits.

        Raises:
            ModelFileError: A tensor is missing, unknown, or has the wrong shape.
            PairError: The head does not fit its target.
        """
        embedding = self._embedding()
        layers = tuple(self._layer(index) for index in range(self.shape.layers))
        weights = EagleWeights(
            shape=self.shape,
            states=states,
            embed=self.target.embed if embedding is None else _Embedding(embedding),
            fusion=self._fusion(states) if fused else None,
            joined_norm=self._norm("input_norm", self.target.width * states),
            chunk_norms=self._chunk_norms(states),
            layers=layers,
            norm=self._final_norm(),
            logits=read_logits(
                self.tensors, self.shape, self.target, embedding=embedding, scale=logit_scale
            ),
            like=self.target.like,
        )
        self.tensors.finish(_NOT_READ)
        return weights

    def _embedding(self) -> torch.Tensor | None:
        """Return the head's own embedding, padded to the target's number of rows.

        Return None if the head has no embedding of its own.
        """
        name, rows = "embed_tokens.weight", self.target.vocabulary
        if name not in self.tensors:
            if self.shape.width != self.target.width:
                raise PairError(
                    f"The head has no embedding, and its width {self.shape.width} differs from "
                    f"the width {self.target.width} of {self.target.name}.",
                    remedy=_THIS_TARGET,
                )
            return None
        found = self.tensors.needed_shape(name)[0]
        if found > rows:
            raise PairError(
                f"The head's embedding has {found} rows, but {self.target.name} has {rows}.",
                remedy=_THIS_TARGET,
            )
        own = self.tensors.take(name, found, self.shape.width)
        return own if found == rows else F.pad(own, (0, 0, 0, rows - found))

    def _fusion(self, states: int) -> Product:
        width = self.target.width * states if self.layout_is_eagle3 else 2 * self.shape.width
        return self._product("fc", width, self.shape.width, bias=False)

    def _final_norm(self) -> Norm | None:
        return self._needed_norm("norm", self.shape.width) if self.layout_is_eagle3 else None

    def _chunk_norms(self, states: int) -> tuple[Norm, ...]:
        if "fc_norm.0.weight" not in self.tensors:
            return ()
        width = self.target.width
        return tuple(self._needed_norm(f"fc_norm.{index}", width) for index in range(states))

    def _layer(self, index: int) -> EagleLayer:
        shape, prefix = self.shape, self._prefix(index)
        joins = self.layout_is_eagle3 and index == 0
        normed = self.layout_is_eagle3 or index > 0
        attention, feed_forward = f"{prefix}.self_attn", f"{prefix}.mlp"
        queries, keys = shape.heads * shape.head_width, shape.key_heads * shape.head_width
        qkv = self._joined(
            {f"{attention}.q_proj": queries, f"{attention}.k_proj": keys,
             f"{attention}.v_proj": keys},
            shape.width * (2 if joins else 1),
            bias=shape.attention_bias,
        )  # fmt: skip
        gate_up = {f"{feed_forward}.gate_proj": shape.inner, f"{feed_forward}.up_proj": shape.inner}
        return EagleLayer(
            input_norm=self._needed_norm(f"{prefix}.input_layernorm", shape.width)
            if normed
            else None,
            state_norm=self._needed_norm(f"{prefix}.hidden_norm", shape.width) if joins else None,
            qkv=qkv,
            query_norm=self._head_norm(f"{attention}.q_norm"),
            key_norm=self._head_norm(f"{attention}.k_norm"),
            output=self._product(f"{attention}.o_proj", queries, shape.width, bias=False),
            feed_forward_norm=self._needed_norm(f"{prefix}.post_attention_layernorm", shape.width),
            gate_up=self._joined(gate_up, shape.width, bias=False),
            down=self._product(f"{feed_forward}.down_proj", shape.inner, shape.width, bias=False),
        )

    def _prefix(self, index: int) -> str:
        names = self.tensors.names()
        if index == 0:
            return "midlayer" if any(each.startswith("midlayer.") for each in names) else "layers.0"
        further = any(each.startswith("additional_layers.") for each in names)
        return f"additional_layers.{index - 1}" if further else f"layers.{index}"

    def _joined(self, rows: dict[str, int], columns: int, *, bias: bool) -> Product:
        """Join several matrices that multiply the same input; return one product."""
        bias = bias or any(f"{name}.bias" in self.tensors for name in rows)
        parts = [self._matrix(name, columns, count, bias=bias) for name, count in rows.items()]
        biases = [each for _, each in parts if each is not None]
        weight = torch.cat([each for each, _ in parts])
        return self.target.product(weight, torch.cat(biases) if biases else None)

    def _product(self, name: str, columns: int, rows: int, *, bias: bool) -> Product:
        return self.target.product(*self._matrix(name, columns, rows, bias=bias))

    def _matrix(
        self, name: str, columns: int, rows: int, *, bias: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        weight = self.tensors.take(f"{name}.weight", rows, columns)
        take = self.tensors.take if bias else self.tensors.take_optional
        return weight, take(f"{name}.bias", rows)

    def _head_norm(self, name: str) -> Norm | None:
        read = self._needed_norm if self.shape.query_norms else self._norm
        return read(name, self.shape.head_width)

    def _norm(self, name: str, width: int) -> Norm | None:
        return self._needed_norm(name, width) if f"{name}.weight" in self.tensors else None

    def _needed_norm(self, name: str, width: int) -> Norm:
        return Norm(self.tensors.take(f"{name}.weight", width), self.shape.eps)


@dataclass(frozen=True, slots=True, eq=False)
class _Embedding:
    weight: torch.Tensor

    def __call__(self, token_ids: torch.Tensor) -> torch.Tensor:
        return F.embedding(token_ids, self.weight)
