"""Write a loaded model as a GGUF file for llama.cpp, in the model's own dtype."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.formats.gguf_writing import Sizes, gguf_name, number_tokens, write_gguf

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Model

_CUT = (
    "model.embed_tokens.weight",
    "lm_head.weight",
)  # written without their unused vocabulary rows
_KINDS = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def cannot_write(model: Model) -> str | None:
    """Return why a model cannot be written as GGUF, or None if it can."""
    from specviz.engine.model.packed_weights import is_packed

    config: Any = model.config
    if is_packed(model):
        return "quantised weights are compared by `bench --quantised`"
    if config.model_type != "llama":
        return f"GGUF files of the model family {config.model_type} are not supported"
    if config.rope_parameters["rope_type"] != "default":
        return "GGUF files with RoPE scaling are not supported"
    if unknown := next((name for name in model.state_dict() if gguf_name(name) is None), None):
        return f"GGUF files with the weight {unknown} are not supported"
    return None


def write_model(
    model: Model,
    vocabulary: int,
    path: Path,
    add_tokens: Callable[[Any, int], None] = number_tokens,
) -> None:
    """Write a model, with only the first ``vocabulary`` rows of its embedding and output."""
    config: Any = model.config
    kind = _KINDS[str(model.dtype).removeprefix("torch.")]
    weights = {
        name: (weight[:vocabulary] if name in _CUT else weight).float().numpy()
        for name, weight in model.state_dict().items()
        if not (name == "lm_head.weight" and config.tie_word_embeddings)
    }
    write_gguf(path, sizes_of(config), weights.items(), add_tokens, kind_of=lambda _name: kind)


def sizes_of(config: Any) -> Sizes:
    return Sizes(
        architecture=config.model_type,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        key_heads=config.num_key_value_heads,
        head_width=getattr(config, "head_dim", None)
        or config.hidden_size // config.num_attention_heads,
        context=config.max_position_embeddings,
        theta=config.rope_parameters["rope_theta"],
        eps=config.rms_norm_eps,
    )
