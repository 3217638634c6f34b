"""A Llama model in plain torch, since importing transformers' model code takes seconds.

Its modules and parameters are named as in transformers, so code for transformers models can enlarge
it to a simulated size and take its weights for the lean step. The forward pass has no cache. During
loading, the logits of the lean step are compared with the logits of this forward pass. The embedded
pairs use this model.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

    Model: TypeAlias = "PreTrainedModel | PlainLlamaForCausalLM"
    Config: TypeAlias = "PreTrainedConfig | PlainConfig"

_converted: WeakKeyDictionary[PlainLlamaForCausalLM, Any] = WeakKeyDictionary()


class PlainConfig(SimpleNamespace):
    """The settings of a config.json, as attributes."""

    def get_text_config(self, **_: Any) -> PlainConfig:
        return self


class _Linear(nn.Linear):
    def reset_parameters(self) -> None:
        """Do nothing: weights are loaded later, and initialising them would import a compiler."""


class _Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        """Do not initialise the weights, which are loaded later."""


class _Norm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.variance_epsilon = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normalised = F.rms_norm(x.float(), x.shape[-1:], None, self.variance_epsilon)
        return normalised.to(x.dtype) * self.weight


class _Rotary(nn.Module):
    inv_freq: torch.Tensor
    attention_scaling = 1.0

    def __init__(self, head_width: int, theta: float) -> None:
        super().__init__()
        exponents = torch.arange(0, head_width, 2, dtype=torch.float32, device="cpu") / head_width
        self.register_buffer("inv_freq", theta**-exponents, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply RoPE to queries or keys `[texts, heads, tokens, head_width]`."""
        angles = torch.arange(x.shape[-2], device=x.device)[:, None] * self.inv_freq
        both = torch.cat((angles, angles), -1)
        first, second = x.chunk(2, -1)
        return x * both.cos().to(x.dtype) + torch.cat((-second, first), -1) * both.sin().to(x.dtype)


class _Attention(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.head_dim: int = config.head_dim
        width, heads = config.hidden_size, config.num_attention_heads * self.head_dim
        keys = config.num_key_value_heads * self.head_dim
        self.q_proj = _Linear(width, heads, bias=False)
        self.k_proj = _Linear(width, keys, bias=False)
        self.v_proj = _Linear(width, keys, bias=False)
        self.o_proj = _Linear(heads, width, bias=False)

    def forward(self, x: torch.Tensor, rotary: _Rotary) -> torch.Tensor:
        texts, tokens, _ = x.shape
        query, key, value = (
            each(x).view(texts, tokens, -1, self.head_dim).transpose(1, 2)
            for each in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = F.scaled_dot_product_attention(
            rotary(query), rotary(key), value, is_causal=True, enable_gqa=True
        )
        return self.o_proj(mixed.transpose(1, 2).reshape(texts, tokens, -1))


class _FeedForward(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = _Linear(width, inner, bias=False)
        self.up_proj = _Linear(width, inner, bias=False)
        self.down_proj = _Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class _Layer(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.self_attn = _Attention(config)
        self.mlp = _FeedForward(config)
        self.input_layernorm = _Norm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = _Norm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: torch.Tensor, rotary: _Rotary) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), rotary)
        return x + self.mlp(self.post_attention_layernorm(x))


class _Layers(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.embed_tokens = _Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = _Norm(config.hidden_size, config.rms_norm_eps)
        self.rotary_emb = _Rotary(config.head_dim, config.rope_parameters["rope_theta"])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, self.rotary_emb)
        return self.norm(x)


class PlainLlamaForCausalLM(nn.Module):
    """A Llama model with default RoPE and no biases."""

    _is_stateful = False

    def __init__(self, config: PlainConfig) -> None:
        super().__init__()
        self.config: Any = config
        self.generation_config: Any = SimpleNamespace(eos_token_id=config.eos_token_id)
        self.model = _Layers(config)
        self.lm_head = _Linear(config.hidden_size, config.vocab_size, bias=False)
        self.tie()

    def tie(self) -> None:
        """Share the embedding with the output matrix if the configuration says so."""
        if self.config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, ids: torch.Tensor, *, use_cache: Literal[False] = False) -> SimpleNamespace:
        """Return the logits `[texts, tokens, vocabulary]`; there is no cache."""
        del use_cache
        return SimpleNamespace(logits=self.lm_head(self.model(ids)))

    @property
    def dtype(self) -> torch.dtype:
        return self.model.norm.weight.dtype  # other weights may be quantised

    def get_input_embeddings(self) -> nn.Module:
        return self.model.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head


def read_weights(model: PlainLlamaForCausalLM, weights: dict[str, torch.Tensor]) -> list[str]:
    """Load these weights into the model; return the names of missing weights."""
    missing = set(model.load_state_dict(weights, strict=False, assign=True).missing_keys)
    if model.config.tie_word_embeddings:
        missing.discard("lm_head.weight")
    model.tie()
    return sorted(missing)


def in_transformers(model: Model) -> PreTrainedModel:
    """Return the model as a transformers model that shares its tensors."""
    if not isinstance(model, PlainLlamaForCausalLM):
        return model
    if model not in _converted:
        from transformers import LlamaConfig, LlamaForCausalLM

        from specviz.engine.model.packed_weights import packed_layers

        with torch.device("meta"):
            made = LlamaForCausalLM(LlamaConfig(**vars(model.config)))
        packed = packed_layers(model)
        for name, layer in packed.items():
            made.set_submodule(name, layer)
        made.load_state_dict(model.state_dict(), assign=True)
        if not packed:
            made.tie_weights()
        device = model.lm_head.weight.device
        made.model.rotary_emb = type(made.model.rotary_emb)(made.config).to(device)
        _converted[model] = made.eval().requires_grad_(False)
    return _converted[model]
