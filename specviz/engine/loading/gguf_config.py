"""Turn the metadata of a GGUF file into a configuration of transformers.

A GGUF file has no ``config.json``. Every value in the metadata is set explicitly. The
defaults of the configuration class are not used, because they describe one particular model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from specviz.errors import PairError
from specviz.formats.gguf_header import GgufHeader
from specviz.formats.gguf_support import FAMILIES
from specviz.formats.token_bytes import CONTROL, END_TEXTS, USER_DEFINED

_SIZES = {
    "context_length": "max_position_embeddings", "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size", "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}  # fmt: skip
_OTHER_SIZES = {  # for families whose configurations use other names
    "gpt2": {
        "context_length": "n_positions", "block_count": "n_layer", "embedding_length": "n_embd",
        "feed_forward_length": "n_inner", "attention.head_count": "n_head",
        "attention.layer_norm_epsilon": "layer_norm_epsilon",
    },
    "starcoder2": {**_SIZES, "attention.layer_norm_epsilon": "norm_epsilon"},
}  # fmt: skip
_LOW, _HIGH = 1.0, 4.0  # frequency factors of Llama 3's RoPE scaling
_TOLERANCE = 1e-3
_GEMMA_PERIOD, _GEMMA_27B = 6, 62  # every sixth layer has full attention; 27B has 62 layers


def config_of(headers: Sequence[GgufHeader], rope_factors: Sequence[float]) -> dict[str, Any]:
    """Return the content of the ``config.json`` that the file's metadata describes.

    Args:
        headers: The header of the file, or the headers of all its parts.
        rope_factors: The values of ``rope_freqs.weight``; empty if the file has no such tensor.

    Raises:
        PairError: A size is missing, or the RoPE scaling is unknown.
    """
    header = headers[0]
    family = FAMILIES[header.architecture]
    names = {each.name: each for part in headers for each in part.tensors}
    config: dict[str, Any] = {"model_type": family}
    for key, name in _OTHER_SIZES.get(family, _SIZES).items():
        value = header.of_model(key)
        if isinstance(value, int | float):
            config[name] = value
    sizes = [header.of_model(key) for key in ("embedding_length", "attention.head_count")]
    if not all(isinstance(each, int) and each > 0 for each in sizes):
        raise _incomplete(header)
    width, heads = (int(each) for each in sizes if isinstance(each, int))
    head_width = header.of_model("attention.key_length") or width // heads
    if "token_embd.weight" not in names:
        raise _incomplete(header)
    config |= {
        "vocab_size": names["token_embd.weight"].shape[0],
        "tie_word_embeddings": "output.weight" not in names,
        "bos_token_id": header.number("tokenizer.ggml.bos_token_id"),
        "eos_token_id": end_ids(header),
    }
    if family != "gpt2":
        config["head_dim"] = head_width
        config["rope_parameters"] = _positions(header, int(str(head_width)), rope_factors)
    if family == "gemma3_text":
        return config | _gemma3(header, config)
    return config | _special(family, set(names))


def end_ids(header: GgufHeader) -> list[int]:
    """Return the ids of the tokens that end an answer."""
    keys = ("eos", "eot", "eom")
    named = {header.number(f"tokenizer.ggml.{key}_token_id") for key in keys}
    tokens = header.strings("tokenizer.ggml.tokens")
    kinds = header.numbers("tokenizer.ggml.token_type")
    known = {
        place
        for place, (text, kind) in enumerate(zip(tokens, kinds, strict=False))
        if text in END_TEXTS and kind in (CONTROL, USER_DEFINED)
    }
    return sorted({int(each) for each in named if each is not None} | known)


def _incomplete(header: GgufHeader) -> PairError:
    return PairError(
        f"{header.path.name} does not state how large the model is.",
        remedy="Copy or download the file again.",
    )


def _special(family: str, names: set[str]) -> dict[str, Any]:
    """Return the configuration entries that say whether the model's matrices have biases.

    ``names``: the names of the file's tensors. They show which biases the file contains.
    """
    if family == "llama":
        return {
            "attention_bias": "blk.0.attn_q.bias" in names,
            "mlp_bias": "blk.0.ffn_up.bias" in names,
        }
    if family == "qwen3":
        return {"attention_bias": "blk.0.attn_q.bias" in names}
    if family == "starcoder2":
        return {"use_bias": "blk.0.attn_q.bias" in names}
    return {}


def _gemma3(header: GgufHeader, config: dict[str, Any]) -> dict[str, Any]:
    """Return Gemma 3's attention settings; layers with a sliding window have another RoPE base."""
    window, layers = header.of_model("attention.sliding_window"), config["num_hidden_layers"]
    local = header.of_model("rope.freq_base_swa") or header.of_model("rope.local.freq_base")
    theta = float(local) if isinstance(local, int | float) else 10_000.0
    per_head = config["hidden_size"] // config["num_attention_heads"]
    return {
        "sliding_window": window,
        "layer_types": [
            "sliding_attention" if window and slides else "full_attention"
            for slides in _sliding_layers(header, layers)
        ],
        "final_logit_softcapping": header.of_model("final_logit_softcapping") or None,  # 0: off
        "query_pre_attn_scalar": per_head if layers == _GEMMA_27B else config["head_dim"],
        "rope_parameters": {
            "full_attention": config["rope_parameters"],
            "sliding_attention": {"rope_theta": theta, "rope_type": "default"},
        },
    }


def _sliding_layers(header: GgufHeader, layers: int) -> list[bool]:
    """Return for each layer whether it has a sliding window.

    If the file contains neither a list nor a period, use Gemma 3's period.
    """
    pattern = header.of_model("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        return [bool(each) for each in pattern]
    period = pattern if isinstance(pattern, int) else _GEMMA_PERIOD
    return [not period or layer % period != 0 for layer in range(1, layers + 1)]


def _positions(header: GgufHeader, head_width: int, factors: Sequence[float]) -> dict[str, Any]:
    theta = header.of_model("rope.freq_base") or header.of_model("rope.global.freq_base")  # Ollama
    theta = float(theta) if isinstance(theta, int | float) else 10_000.0
    scale = header.of_model("rope.scaling.factor")
    scale = header.of_model("rope.scale_linear") if scale is None else scale
    if any(abs(each - 1) > _TOLERANCE for each in factors):
        return {"rope_theta": theta, **_llama3(header, head_width, theta, factors)}
    kind = header.of_model("rope.scaling.type") or "linear"  # the default of llama.cpp
    if kind == "linear" and isinstance(scale, int | float) and scale:
        return {"rope_theta": theta, "rope_type": "linear", "factor": float(scale)}
    return {"rope_theta": theta, "rope_type": "default"}


def _llama3(
    header: GgufHeader, head_width: int, theta: float, factors: Sequence[float]
) -> dict[str, Any]:
    """Return the settings of Llama 3's RoPE scaling that give these factors.

    ``factors`` contains the divisor of each frequency: 1 for short wavelengths, the largest divisor
    for long ones, and interpolated divisors in between. The interpolation depends on the original
    context length, so this length is computed from the interpolated divisors.
    """
    lengths = [2 * math.pi * theta ** (2 * i / head_width) for i in range(head_width // 2)]
    factor = max(factors)
    origins = [
        length * (_LOW + (1 / each - 1 / factor) / (1 - 1 / factor) * (_HIGH - _LOW))
        for length, each in zip(lengths, factors, strict=False)
        if 1 + _TOLERANCE < each < factor * (1 - _TOLERANCE)
    ]
    context = round(sum(origins) / len(origins)) if origins else 0
    made = [_scaled(length, factor, context) for length in lengths]
    if len(made) != len(factors) or not all(
        math.isclose(each, known, rel_tol=_TOLERANCE)
        for each, known in zip(made, factors, strict=True)
    ):
        raise PairError(
            f"The RoPE scaling of {header.path.name} is unknown.",
            remedy="Use the model in safetensors format.",
        )
    return {
        "rope_type": "llama3", "factor": factor, "low_freq_factor": _LOW,
        "high_freq_factor": _HIGH, "original_max_position_embeddings": context,
    }  # fmt: skip


def _scaled(length: float, factor: float, context: int) -> float:
    """Return Llama 3's divisor for the frequency whose wavelength is ``length``."""
    smooth = (context / length - _LOW) / (_HIGH - _LOW)
    smooth = min(1.0, max(0.0, smooth))
    return 1 / ((1 - smooth) / factor + smooth)
