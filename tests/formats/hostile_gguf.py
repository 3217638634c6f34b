"""GGUF files that are damaged or lie, and what is said about each."""

from __future__ import annotations

import struct

HEAD = b"GGUF" + struct.pack("<I", 3)


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def key(name: bytes, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def tensor(name: bytes, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + dimensions + struct.pack("<IQ", kind, offset)


def made(keys: list[bytes], tensors: list[bytes], data: bytes = b"") -> bytes:
    """Return a file with these keys, tensors and data."""
    head = HEAD + struct.pack("<QQ", len(tensors), len(keys)) + b"".join([*keys, *tensors])
    return head + bytes(-len(head) % 32) + data


LLAMA = key(b"general.architecture", 8, text(b"llama"))
_DATA = bytes(64)
_ONE = [tensor(b"x", (8,), 0, 0)]
_ARRAY = struct.pack("<IQ", 8, 2**62)

# The content of each file, and a part of the message.
HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "truncated"),
    "other magic": (b"GGML" + bytes(60), "not a GGUF file"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(60), "not a GGUF file"),
    "version 1": (b"GGUF" + struct.pack("<I", 1) + bytes(60), "version 1"),
    "big-endian": (b"GGUF" + struct.pack(">I", 3) + bytes(60), "big-endian"),
    "a billion keys": (HEAD + struct.pack("<QQ", 0, 10**9) + bytes(60), "1,000,000,000"),
    "endless tensors": (HEAD + struct.pack("<QQ", 2**63, 0) + bytes(60), "tensors"),
    "a text of 2**63 bytes": (
        HEAD + struct.pack("<QQ", 0, 1) + struct.pack("<Q", 2**63) + bytes(60), "bytes",
    ),
    "an endless array": (made([key(b"a.b", 9, _ARRAY)], []) + bytes(60), "elements"),
    "an unknown type of value": (made([key(b"a.b", 77, bytes(8))], []), "unknown type 77"),
    "an array of arrays": (
        made([key(b"a.b", 9, struct.pack("<IQ", 9, 1) + bytes(16))], []), "array",
    ),
    "no dimensions": (made([LLAMA], [tensor(b"x", (), 0, 0) + bytes(32)]), "0 dimensions"),
    "an unknown type of tensor": (
        made([LLAMA], [tensor(b"x", (32,), 200, 0)], _DATA), "unknown type 200",
    ),
    "a shape that does not fit its type": (
        made([LLAMA], [tensor(b"x", (33,), 2, 0)], _DATA), "does not fit",
    ),
    "a shape larger than the file": (
        made([LLAMA], [tensor(b"x", (2**40, 2**20), 0, 0)], _DATA), "truncated",
    ),
    "tensors that overlap": (
        made([LLAMA], [tensor(b"x", (8,), 0, 0), tensor(b"y", (8,), 0, 4)], _DATA), "overlaps",
    ),
    "an alignment of 0": (made([key(b"general.alignment", 4, bytes(4))], []), "alignment"),
}  # fmt: skip


def _with_tokens(model: bytes, *keys: bytes, pre: bytes = b"gpt-2") -> list[bytes]:
    """Return the keys of a Llama with one token and this type of tokenizer."""
    tokens = key(b"tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 1) + text(b"a"))
    names = ((b"tokenizer.ggml.model", model), (b"tokenizer.ggml.pre", pre))
    return [LLAMA, tokens, *(key(name, 8, text(value)) for name, value in names), *keys]


def _with_tensor(name: bytes, kind: int = 0) -> bytes:
    """Return a Llama with a tokenizer and one tensor, of this type."""
    return made(_with_tokens(b"llama"), [tensor(name, (8,), kind, 0)], _DATA)


def _scaled(kind: bytes) -> bytes:
    return key(b"llama.rope.scaling.type", 8, text(kind))


# Whole files that are no model that can be used.
UNUSABLE: dict[str, tuple[bytes, str]] = {
    "an embedding model": (
        made([key(b"general.architecture", 8, text(b"bert"))], []), "an embedding model",
    ),
    "a vision projector": (
        made([key(b"general.architecture", 8, text(b"clip"))], []), "a vision projector",
    ),
    "an adapter": (made([LLAMA, key(b"general.type", 8, text(b"adapter"))], []), "adapter"),
    "an unknown architecture": (
        made([key(b"general.architecture", 8, text(b"mamba"))], []), "mamba is not supported",
    ),
    "without a tokenizer": (made([LLAMA], _ONE, _DATA), "without a tokenizer"),
    "without weights": (made(_with_tokens(b"gpt2"), []), "a vocabulary without weights"),
    "a unigram tokenizer": (
        made(_with_tokens(b"t5"), _ONE, _DATA), "tokenizers of the type t5 are not supported",
    ),
    "a WordPiece tokenizer": (
        made(_with_tokens(b"bert"), _ONE, _DATA), "tokenizers of the type bert are not supported",
    ),
    "a tokenizer without a type": (
        made(_with_tokens(b""), _ONE, _DATA), "tokenizers of the type  are not supported",
    ),
    "an unknown pre-tokenizer": (
        made(_with_tokens(b"gpt2", pre=b"viking"), _ONE, _DATA),
        "the pre-tokenizer viking is not supported",
    ),
    "no pre-tokenizer": (
        made(_with_tokens(b"gpt2", pre=b""), _ONE, _DATA),
        "the pre-tokenizer default is not supported",
    ),
    "YaRN": (
        made(_with_tokens(b"gpt2", _scaled(b"yarn")), _ONE, _DATA),
        "RoPE scaling of the type yarn is not supported",
    ),
    "long and short factors": (_with_tensor(b"rope_factors_long.weight"), "long and short factors"),
    "experts": (_with_tensor(b"blk.0.ffn_up_exps.weight"), "mixtures of experts are not supported"),
    "a vision model with its text model": (
        _with_tensor(b"v.blk.0.attn_q.weight"), "a vision model",
    ),
    "a type of weights that is not read": (
        _with_tensor(b"x", kind=24), "the quantization I8 is not supported",
    ),
}  # fmt: skip
