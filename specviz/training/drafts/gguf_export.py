"""Write a trained draft as a GGUF file: a small model, or an EAGLE-3 head."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from specviz.engine.loading.gguf_vocabulary import vocabulary_of
from specviz.errors import ConfigError
from specviz.formats.gguf_writing import (
    Eagle3Sizes,
    Sizes,
    eagle3_name,
    gguf_name,
    llama3_factors,
    write_eagle3_gguf,
    write_gguf,
)
from specviz.formats.heads import HeadFacts
from specviz.formats.model_folder import read_folder
from specviz.formats.reduced_drafts import EMBEDDING, OFFSETS, OUTPUT
from specviz.training.drafts.export import flags_of, places_of, read_weights, rope_of

_ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
_KINDS = {torch.float16: "F16", torch.bfloat16: "BF16"}
_T2D = "t2d"


def write_small(folder: Path, path: Path, target: str) -> None:
    """Write a small model with the vocabulary of its target.

    GGUF has no reduced output, so the output matrix gets zeros for tokens that the model cannot
    propose. The logits of these tokens are then 0 instead of minus infinity.

    Args:
        folder: The folder to which the training wrote the model and the target's tokenizer.
        path: The GGUF file.
        target: The target. If the target is a GGUF file, its vocabulary is copied; otherwise the
            vocabulary comes from the tokenizer in ``folder``.
    """
    model = read_folder(folder)
    config, family = model.config, str(model.config.get("model_type"))
    tensors = _with_whole_output(read_weights(model.weights))
    if family not in _ARCHITECTURES or (config.get("sliding_window") and family == "mistral"):
        raise ConfigError(
            f"specviz cannot write GGUF files of the model family {family}.",
            remedy="Serve the draft's folder with vLLM.",
        )
    _refuse_unknown([name for name in tensors if gguf_name(name) is None])
    source = Path(target) if target.endswith(".gguf") and Path(target).is_file() else folder
    kind = _kind(tensors)
    with _completed(path) as partial:
        write_gguf(
            partial,
            _sizes(config, _ARCHITECTURES[family]),
            _arrays(tensors).items(),
            vocabulary_of(source),
            kind_of=lambda _name: kind,
            rope_factors=_factors(config),
        )


def _with_whole_output(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a model's tensors; the output matrix gets a row for each token in the vocabulary."""
    if (offsets := tensors.pop(OFFSETS, None)) is None:
        return tensors
    own, embedding = tensors[OUTPUT], tensors[EMBEDDING]
    whole = own.new_zeros(embedding.shape)
    whole[offsets + torch.arange(len(offsets))] = own
    return tensors | {OUTPUT: whole}


def write_head(facts: HeadFacts, path: Path, target: str) -> None:
    """Write an EAGLE-3 head with one layer, for llama.cpp's ``draft-eagle3``.

    Args:
        facts: The head in its authors' layout.
        path: The GGUF file.
        target: The target's folder or GGUF file, from which the vocabulary is copied.
    """
    config, places, flags = facts.config, places_of(facts), flags_of(facts)
    tensors = {name: each for name, each in read_weights(facts.weights).items() if name != _T2D}
    _refuse_unknown(
        [name for name in tensors if name != "d2t" and eagle3_name(name) is None]
        + [name for name in ("fc_norm", "logit_scale") if flags.get(name) or config.get(name)]
    )
    if len(places) != 3 or config.get("num_hidden_layers", 1) != 1:
        raise ConfigError(
            "llama.cpp needs an EAGLE-3 head with one layer that reads three target layers.",
            remedy="Export this head as speculators, for vLLM.",
        )
    low, middle, high = places
    head = Eagle3Sizes(
        vocabulary=int(config["vocab_size"]),
        places=(low, middle, high),
        target_width=int(config.get("target_hidden_size") or config["hidden_size"]),
        norm_before_residual=flags["norm_before_residual"],
        norm_before_fc=flags["norm_before_fc"],
    )
    add_tokens = vocabulary_of(_vocabulary_source(target))
    with _completed(path) as partial:
        write_eagle3_gguf(
            partial,
            _sizes(config, "eagle3"),
            head,
            _arrays(tensors).items(),
            add_tokens,
            kind=_kind(tensors),
            rope_factors=_factors(config),
        )


def _vocabulary_source(target: str) -> Path:
    place = Path(target).expanduser()
    if place.is_file() or place.is_dir():
        return place
    raise ConfigError(
        f"A GGUF head needs the target's vocabulary, but {place.name} is not a file or folder.",
        remedy="Give the target's folder or its GGUF file.",
    )


@contextmanager
def _completed(path: Path) -> Iterator[Path]:
    """Yield a temporary path; rename the file at this path to ``path`` once it is complete."""
    partial = path.with_suffix(".partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _refuse_unknown(names: list[str]) -> None:
    if names:
        raise ConfigError(
            f"The GGUF format cannot store {names[0]}.",
            remedy="Serve the draft's folder with vLLM.",
        )


def _kind(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the GGUF type that matches the dtype of the draft's matrices."""
    matrix = next(each for each in tensors.values() if each.ndim > 1)
    return _KINDS.get(matrix.dtype, "F32")


def _arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {
        name: (each.float() if each.is_floating_point() else each).numpy()
        for name, each in tensors.items()
    }


def _sizes(config: Mapping[str, Any], architecture: str) -> Sizes:
    heads = int(config["num_attention_heads"])
    return Sizes(
        architecture=architecture,
        layers=int(config.get("num_hidden_layers") or 1),
        heads=heads,
        key_heads=int(config.get("num_key_value_heads") or heads),
        head_width=int(config.get("head_dim") or config["hidden_size"] // heads),
        context=int(config.get("max_position_embeddings") or 2048),
        theta=float(rope_of(config)["rope_theta"]),
        eps=float(config.get("rms_norm_eps") or 1e-6),
    )


def _factors(config: Mapping[str, Any]) -> np.ndarray | None:
    rope = rope_of(config)
    if rope["rope_type"] == "default":
        return None
    if rope["rope_type"] != "llama3":
        raise ConfigError(
            f"specviz cannot write GGUF files with the RoPE scaling {rope['rope_type']}.",
            remedy="Serve the draft's folder with vLLM.",
        )
    return llama3_factors(float(rope["rope_theta"]), _sizes(config, "").head_width, rope)
