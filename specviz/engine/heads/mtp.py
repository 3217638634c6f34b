"""Multi-token prediction layers (MTP) in the target's own checkpoint.

A layer joins the embedding of the next token with a hidden state, runs one decoder layer of the
target's family and normalises the result. The target's output matrix turns the normalised result
into logits. If there is one layer, it drafts each further candidate from its own output. If there
are several, layer 0 proposes the first candidate, and layer k reads the outputs of layer k - 1 and
proposes candidate k + 1. Copies of the target's embedding and output matrix in an MTP layer are not
loaded.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from specviz.engine.heads.head import Head, HeadKind, TargetParts
from specviz.engine.heads.mtp_run import MtpRun, causal_mask
from specviz.engine.heads.mtp_weights import MtpFacts, find_mtp, layer_weights
from specviz.engine.model.step_capabilities import AFTER_NORM, HiddenStates, Offered
from specviz.errors import ModelFileError
from specviz.values import Value

__all__ = ["MtpFacts", "MtpHead", "MtpSettings", "find_mtp", "open_mtp"]

_FLOATS = ("F32", "F16", "BF16")
_COPY_AGAIN = "Copy or download the model again."
_OTHER_METHOD = "Choose another drafting method for this target."
_FAMILIES = {  # module, prefix of its classes, prefix of its rotary class
    "deepseek_v3": ("deepseek_v3", "DeepseekV3", "DeepseekV3"),
    "glm4_moe": ("glm4_moe", "Glm4Moe", "Glm4Moe"),
    "qwen3_next": ("qwen3_next", "Qwen3Next", "Qwen3Next"),
    "qwen3_5_text": ("qwen3_5", "Qwen3_5", "Qwen3_5Text"),
    "qwen3_5_moe_text": ("qwen3_5_moe", "Qwen3_5Moe", "Qwen3_5MoeText"),
    "mimo": ("qwen2", "Qwen2", "Qwen2"),
}


class MtpSettings(Value):
    """Settings that a model's files do not state.

    The defaults apply to all families but MiMo; see ``_default_settings``.
    """

    embedding_first: bool = True  # joined as [embedding, hidden state]
    zero_first_embedding: bool = False  # whether row 0 reads zeros in place of its embedding
    recycle_after_norm: bool = True  # whether the next step reads the normalised output
    place: int = AFTER_NORM  # which of the target's hidden states the first layer reads
    first_position: int = 0  # the rotary position of row 0
    shift_ids: Literal[0, 1] = 1  # 1: a row embeds the token after its state's; 0: the same token

    @property
    def states(self) -> HiddenStates:
        return HiddenStates((self.place,))


class _Weights(Value, eq=False):
    layers: Any  # a module list of the layers
    rotary: nn.Module

    @property
    def parameters(self) -> list[torch.Tensor]:
        return list(self.layers.parameters())


def open_mtp(facts: MtpFacts, target: TargetParts) -> MtpHead:
    """Return the MTP layers with their weights, on the target's device and in its dtype.

    Raises:
        ModelFileError: The family is not supported, or a tensor is missing or has another shape.
    """
    name = facts.path.name
    if facts.family not in _FAMILIES:
        raise ModelFileError(
            f"{name} has MTP layers of the family {facts.family}, which are not supported.",
            remedy=_OTHER_METHOD,
        )
    if any(each.kind not in _FLOATS for each in facts.tensors.values()):
        raise ModelFileError(f"The MTP layers of {name} are quantised.", remedy=_OTHER_METHOD)
    if facts.config.get("mtp_use_dedicated_embeddings"):
        raise ModelFileError(
            f"The MTP layers of {name} have their own embedding, which is not supported.",
            remedy=_OTHER_METHOD,
        )
    if (width := facts.config.get("hidden_size")) != target.width:
        raise ModelFileError(
            f"The MTP layers of {name} have width {width}, but {target.name} has {target.width}.",
            remedy="Choose the model that contains these layers as the target.",
        )
    config = _layer_config(facts)
    module, prefix, rotary = _FAMILIES[facts.family]
    family = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    classes = (getattr(family, f"{prefix}DecoderLayer"), getattr(family, f"{prefix}RMSNorm"))
    layers = nn.ModuleList(_built(config, classes, each) for each in range(facts.layers))
    for index, layer in enumerate(layers):
        _load(facts, layer, index, target.like)
    weights = _Weights(
        layers=layers.eval().requires_grad_(False),
        rotary=getattr(family, f"{rotary}RotaryEmbedding")(config).to(target.like.device),
    )
    return MtpHead(weights, target, _default_settings(facts))


class MtpHead(Head[_Weights, MtpSettings]):
    """The MTP layers of a target."""

    kind: ClassVar[HeadKind] = "mtp"
    method: ClassVar[str] = "mtp"

    @property
    def layers(self) -> Any:
        return self.weights.layers

    @property
    def most_candidates(self) -> int | None:
        return None if len(self.layers) == 1 else len(self.layers)

    @property
    def proposable(self) -> torch.Tensor | None:
        return None

    @property
    def trees(self) -> Offered:
        return True

    def start(self, capacity: int) -> MtpRun:
        return MtpRun(self, capacity)

    def read_rows(
        self,
        index: int,
        token_ids: torch.Tensor,
        states: torch.Tensor,
        first: int,
        cache: Any,
        tree: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run layer ``index`` on new rows from ``first`` on; add keys and values to ``cache``.

        Args:
            tree: positions `[rows]` and additive mask `[1, 1, rows, first + rows]`, if rows are
                nodes of a tree; None for rows that follow each other.

        Returns:
            The normalised outputs and the states that the next step reads, `[rows, width]` each.
        """
        layer = self.layers[index]
        if tree is None:
            positions = torch.arange(len(states), device=states.device) + first
            mask = causal_mask(states, first)
        else:
            positions, mask = tree
        joined = self._joined(layer, self.target.embed(token_ids), states, positions)
        positions = (positions + self.settings.first_position)[None]
        outputs = layer.mtp_block(
            joined[None],
            position_embeddings=self.weights.rotary(joined[None], positions),
            position_ids=positions,
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
        )[0]
        normalised = layer.post_norm(outputs)
        return normalised, normalised if self.settings.recycle_after_norm else outputs

    def _joined(
        self, layer: Any, embedded: torch.Tensor, states: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        if self.settings.zero_first_embedding:
            embedded = embedded.masked_fill((positions == 0)[:, None], 0)
        both = (layer.enorm(embedded), layer.hnorm(states))
        return layer.eh_proj(torch.cat(both if self.settings.embedding_first else both[::-1], -1))


def _default_settings(facts: MtpFacts) -> MtpSettings:
    if facts.layout == "mimo":
        return MtpSettings(embedding_first=False, zero_first_embedding=True)
    return MtpSettings()


def _layer_config(facts: MtpFacts) -> Any:
    """Return the configuration that the family's decoder layer needs as an MTP layer."""
    from transformers import AutoConfig

    given = {key: value for key, value in facts.config.items() if key != "model_type"}
    try:
        kind = "qwen2" if facts.layout == "mimo" else facts.family
        config: Any = AutoConfig.for_model(kind, **given)
    except Exception as error:  # transformers raises errors of many types here
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise ModelFileError(
            f"The configuration of {facts.path.name} is not valid: {reason}.", remedy=_COPY_AGAIN
        ) from None
    every = list(range(facts.layers))
    sparse = any(".experts." in name for name in facts.tensors)
    config.num_hidden_layers = facts.layers
    if getattr(config, "layer_types", None) is not None:
        config.layer_types = ["full_attention" for _ in every]
    if hasattr(config, "first_k_dense_replace"):
        config.first_k_dense_replace = 0 if sparse else facts.layers
    if hasattr(config, "mlp_only_layers"):
        config.mlp_only_layers, config.decoder_sparse_step = ([] if sparse else every), 1
    config._attn_implementation, config._experts_implementation = "sdpa", "eager"
    return config


def _built(config: Any, classes: tuple[Any, Any], index: int) -> nn.Module:
    from transformers.modeling_layers import MtpLayer

    with torch.device("meta"):
        return MtpLayer(config, *classes, index)


def _load(facts: MtpFacts, layer: nn.Module, index: int, like: torch.Tensor) -> None:
    """Read the weights of one layer into it; raise ModelFileError if they do not fit."""
    weights = layer_weights(facts, index)
    chosen = {}
    for name, empty in layer.state_dict().items():
        short = name.removeprefix("mtp_block.")
        whose = f"MTP layer {index} of {facts.path.name}"
        if name not in weights:
            raise ModelFileError(f"{whose} has no {short}.", remedy=_COPY_AGAIN)
        stored = weights[name]
        if stored.shape != empty.shape:
            raise ModelFileError(
                f"{short} of {whose} has the shape {_by(stored.shape)} instead of "
                f"{_by(empty.shape)}.",
                remedy=_COPY_AGAIN,
            )
        if not bool(stored.isfinite().all()):
            raise ModelFileError(
                f"{short} of {whose} contains NaN or infinity.", remedy=_COPY_AGAIN
            )
        # The router adds this bias to scores whose differences half precision cannot represent.
        dtype = torch.float32 if name.endswith("e_score_correction_bias") else like.dtype
        chosen[name] = stored.to(like.device, dtype)
    layer.load_state_dict(chosen, assign=True)


def _by(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape))
