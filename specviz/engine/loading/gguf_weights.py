"""Read and dequantise the weights of a GGUF file for a transformers model.

Every tensor of the file must match a weight of the model in name and shape, and no weight may be
missing. So a file of an unknown model variant raises an error instead of giving wrong logits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gguf
import numpy as np
import torch
from transformers import PreTrainedModel

from specviz.engine.model.packed_weights import PackedMatrix
from specviz.errors import PairError
from specviz.formats.gguf_header import GgufHeader, GgufTensor
from specviz.kernels.packed_types import can_pack

_IGNORED = frozenset({"rope_freqs.weight"})  # used for the configuration instead
_ARCHITECTURES = {"gemma3_text": "gemma3"}
_TRANSPOSED = ("attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight")


def read_tensor(header: GgufHeader, tensor: GgufTensor) -> np.ndarray:
    """Return a tensor, dequantised to float32."""
    kind = gguf.GGMLQuantizationType[tensor.kind]
    values = gguf.quants.dequantize(_read_bytes(header, tensor), kind)
    return values.reshape(tensor.shape)


def _read_bytes(header: GgufHeader, tensor: GgufTensor) -> np.ndarray:
    with header.path.open("rb") as file:
        file.seek(tensor.start)
        content = file.read(tensor.size)
    if len(content) < tensor.size:
        raise PairError(
            f"{header.path.name} is truncated.", remedy="Copy or download the file again."
        )
    return np.frombuffer(content, np.uint8)


def read_weights(
    headers: Sequence[GgufHeader],
    skeleton: PreTrainedModel,
    dtype: torch.dtype,
    report: Callable[[int, int], None],
    *,
    packed: bool = False,
) -> dict[str, torch.Tensor | PackedMatrix]:
    """Return the weights of a model by their names in transformers.

    Args:
        headers: The header of the file, or the headers of all its parts.
        skeleton: The model without weights.
        report: Called with the bytes read so far and the total.
        packed: Whether to return matrices as ``PackedMatrix``. They stay quantised as in the file
            where kernels can multiply with them.

    Raises:
        PairError: A tensor matches no weight, a shape differs, or a weight is missing.
    """
    places = _places(skeleton)
    wanted = {name: tuple(weight.shape) for name, weight in skeleton.state_dict().items()}
    found: dict[str, torch.Tensor | PackedMatrix] = {}
    total = sum(each.size for header in headers for each in header.tensors)
    done = 0
    for header in headers:
        for tensor in header.tensors:
            if tensor.name not in _IGNORED:
                name = _place_of(header, tensor, places)
                if packed and tuple(tensor.shape) == wanted[name] and stays_packed(tensor):
                    found[name] = _packed(header, tensor, skeleton.config)
                else:
                    values = _arranged(tensor.name, read_tensor(header, tensor), skeleton.config)
                    if values.shape != wanted[name]:
                        raise _refusal(
                            header, f"the shape of tensor {tensor.name} is {values.shape}"
                        )
                    weight = torch.from_numpy(np.require(values, requirements=["C", "W"])).to(dtype)
                    matrix = packed and weight.dim() == 2
                    found[name] = PackedMatrix.of_float(weight) if matrix else weight
            done += tensor.size
            report(done, total)
    tied = {"lm_head.weight"} if skeleton.config.tie_word_embeddings else set()
    if missing := sorted(wanted.keys() - found.keys() - tied):
        raise _refusal(headers[0], f"it lacks {missing[0]}")
    return found


def stays_packed(tensor: GgufTensor) -> bool:
    """Return whether the kernels can multiply with a matrix that stays quantised as in the file."""
    shape = tensor.shape
    return len(shape) == 2 and can_pack(tensor.kind, shape[0], shape[1])


def _packed(header: GgufHeader, tensor: GgufTensor, config: Any) -> PackedMatrix:
    rows, width = tensor.shape
    raw = _arranged(tensor.name, _read_bytes(header, tensor).reshape(rows, -1), config)
    try:
        return PackedMatrix.of_blocks(tensor.kind, raw, width)
    except ValueError as error:
        raise PairError(
            f"The weights of {header.path.name} are broken: {tensor.name} contains NaN or infinite "
            "values.",
            remedy="Copy or download the model again, or choose another copy of it.",
        ) from error


def _places(skeleton: PreTrainedModel) -> dict[str, str]:
    """Return the transformers name of each weight of the model, by its name in GGUF files."""
    config = skeleton.config.get_text_config()
    family = _ARCHITECTURES.get(config.model_type) or str(config.model_type)
    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(kinds[family], config.num_hidden_layers)
    return dict(_named(skeleton.state_dict(), names))


def _named(weights: dict[str, Any], names: gguf.TensorNameMap) -> Iterator[tuple[str, str]]:
    for weight in weights:
        name, _, end = weight.rpartition(".")
        if known := names.get_name(name):
            yield f"{known}.{end}", weight


def _place_of(header: GgufHeader, tensor: GgufTensor, places: dict[str, str]) -> str:
    if tensor.name not in places:
        raise _refusal(header, f"the tensor {tensor.name[:60]} is unknown in this family of models")
    return places[tensor.name]


def _refusal(header: GgufHeader, what: str) -> PairError:
    return PairError(
        f"The weights of {header.path.name} do not fit its metadata: {what}.",
        remedy="Use the model in safetensors format, or convert the model again.",
    )


def _arranged(name: str, values: np.ndarray, config: Any) -> np.ndarray:
    """Undo the changes that llama.cpp's converter made to the tensor ``name``."""
    family = config.model_type
    if family == "llama" and ".attn_q." in name:
        return _halves(values, config.num_attention_heads)
    if family == "llama" and ".attn_k." in name:
        return _halves(values, config.num_key_value_heads)
    if family == "gemma3_text" and name.endswith("norm.weight"):
        return values - 1
    if family == "gpt2" and name.endswith(_TRANSPOSED):
        return values.T
    return values


def _halves(values: np.ndarray, heads: int) -> np.ndarray:
    """Reorder a matrix's rows from the order of llama.cpp to the order of transformers.

    RoPE rotates pairs of rows. A pair is two neighbours in llama.cpp, and two rows half a head
    apart in transformers.
    """
    pairs = values.reshape(heads, values.shape[0] // heads // 2, 2, *values.shape[1:])
    return pairs.swapaxes(1, 2).reshape(values.shape)
