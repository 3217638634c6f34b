"""Ask llama.cpp for the tokens of texts under the vocabulary of a GGUF file.

llama.cpp's server needs weights, so the vocabulary is copied into a file with a tiny model.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import gguf
import numpy as np

WIDTH, UNITS = 32, 64


def with_tiny_model(source: Path, target: Path) -> Path:
    """Copy the tokenizer of a GGUF file into a new file with a model of one layer."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "llama")
    tokens = len(reader.fields["tokenizer.ggml.tokens"].data)
    for key, field in reader.fields.items():
        if key.startswith("tokenizer."):
            _copy(writer, key, field)
    add_tiny_model(writer, tokens)
    return target


def add_tiny_model(writer: Any, tokens: int) -> None:
    """Add a Llama of one layer with constant weights, and write the file."""
    for name, value in (
        ("block_count", 1), ("context_length", 64), ("embedding_length", WIDTH),
        ("feed_forward_length", UNITS), ("head_count", 2), ("head_count_kv", 2),
    ):  # fmt: skip
        getattr(writer, f"add_{name}")(value)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // 2)
    writer.add_vocab_size(tokens)
    square, wide = (WIDTH, WIDTH), (UNITS, WIDTH)
    shapes = {
        "token_embd": (tokens, WIDTH), "output_norm": (WIDTH,), "blk.0.attn_norm": (WIDTH,),
        "blk.0.ffn_norm": (WIDTH,), "blk.0.attn_q": square, "blk.0.attn_k": square,
        "blk.0.attn_v": square, "blk.0.attn_output": square, "blk.0.ffn_gate": wide,
        "blk.0.ffn_up": wide, "blk.0.ffn_down": (WIDTH, UNITS),
    }  # fmt: skip
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", np.full(shape, 0.01, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy(writer: Any, key: str, field: Any) -> None:
    kind = field.types[0]
    value = field.contents()
    if kind == gguf.GGUFValueType.ARRAY:
        if field.types[-1] == gguf.GGUFValueType.STRING:
            writer.add_key_value(
                key, [bytes(field.parts[i]) for i in field.data], kind, field.types[-1]
            )
        else:
            writer.add_key_value(key, value, kind, field.types[-1])
    else:
        writer.add_key_value(key, value, kind)


class LlamaCppTokens:
    """llama.cpp's server on a file; open it with ``with``, so that it ends."""

    def __init__(self, path: Path) -> None:
        xllamacpp: Any = import_module("xllamacpp")

        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.verbosity = 0
        params.n_ctx, params.n_parallel, params.n_gpu_layers = 64, 1, 0
        params.fit_params, params.cache_ram_mib, params.warmup = False, 0, False
        self._server = xllamacpp.Server(params)
        self.address = self._server.listening_address

    def ids(self, text: str, *, special: bool, bos: bool = False) -> list[int]:
        """Return the ids; ``special`` recognises special tokens, ``bos`` adds the first token."""
        asked = {"content": text, "add_special": bos, "parse_special": special}
        return self._post("tokenize", asked)["tokens"]

    def text(self, ids: Sequence[int]) -> str:
        return self._post("detokenize", {"tokens": list(ids)})["content"]

    def _post(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.address}/{path}",
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
