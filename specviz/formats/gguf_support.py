"""Tables of the architectures, tokenizers and tensor types that are supported in GGUF files."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.formats.gguf_header import GgufHeader
from specviz.formats.pre_tokenizers import PRE_TOKENIZERS
from specviz.formats.token_bytes import BYTE_LEVEL, SENTENCE_PIECE

# The supported architectures, and their names in transformers.
FAMILIES = {
    "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3": "gemma3_text",
    "starcoder2": "starcoder2", "gpt2": "gpt2",
}  # fmt: skip
# Architectures that are not language models.
_OTHER_KINDS = {
    "clip": "a vision projector", "bert": "an embedding model", "nomic-bert": "an embedding model",
    "nomic-bert-moe": "an embedding model", "jina-bert-v2": "an embedding model",
    "jina-bert-v3": "an embedding model", "modern-bert": "an embedding model",
    "neo-bert": "an embedding model", "gemma-embedding": "an embedding model",
    "eurobert": "an embedding model", "t5encoder": "an embedding model",
    "wavtokenizer-dec": "an audio model", "qwen2vl": "a vision model",
    "qwen3vl": "a vision model", "qwen3vlmoe": "a vision model",
}  # fmt: skip
# Families and types whose weights can stay quantised on a CPU.
_PACKED_FAMILIES = frozenset({"llama", "mistral", "qwen2", "qwen3"})
_PACKED_TYPES = frozenset(
    {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"}
)
# Tensor types that the gguf package dequantises, checked against llama.cpp.
_TYPES = frozenset(
    {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K",
     "Q6_K", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "IQ4_NL",
     "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4"}
)  # fmt: skip


def stays_quantised(family: str, quantization: str) -> bool:
    """Return whether weights of this family and quantization can stay quantised on a CPU."""
    return family in _PACKED_FAMILIES and quantization in _PACKED_TYPES


def refusal_of(headers: Sequence[GgufHeader]) -> str:
    """Return why a file cannot be used, such as "a model without a tokenizer"; "" if usable."""
    header = headers[0]
    architecture = header.architecture
    if header.text("general.type") not in ("", "model"):
        return f"a file of the type {header.text('general.type')[:40]}, not a model"
    if architecture in _OTHER_KINDS:
        return f"{_OTHER_KINDS[architecture]}, not a language model"
    if architecture not in FAMILIES:
        return f"the architecture {architecture[:40] or 'without a name'} is not supported"
    if not any(each.tensors for each in headers):
        return "a vocabulary without weights"
    if not header.count("tokenizer.ggml.tokens"):
        return "a model without a tokenizer"
    return _unsupported_tokenizer(header) or _unsupported_parts(headers)


def _unsupported_tokenizer(header: GgufHeader) -> str:
    model, pre = header.text("tokenizer.ggml.model"), header.text("tokenizer.ggml.pre")
    if model == SENTENCE_PIECE:
        return ""
    if model != BYTE_LEVEL:
        return f"tokenizers of the type {model[:40]} are not supported"
    if pre not in PRE_TOKENIZERS:
        return f"the pre-tokenizer {pre[:40] or 'default'} is not supported"
    return ""


def _unsupported_parts(headers: Sequence[GgufHeader]) -> str:
    header, tensors = headers[0], [each for part in headers for each in part.tensors]
    kinds = {each.kind for each in tensors}
    if unknown := sorted(kinds - _TYPES):
        return f"the quantization {unknown[0]} is not supported"
    scaling = header.of_model("rope.scaling.type")
    if scaling not in (None, "none", "linear"):
        return f"RoPE scaling of the type {str(scaling)[:20]} is not supported"
    names = {each.name for each in tensors}
    if any(name.startswith(("v.", "mm.")) for name in names):  # as Ollama stores Gemma 3
        return "a vision model, not a language model"
    if names & {"rope_factors_long.weight", "rope_factors_short.weight"}:
        return "RoPE scaling with long and short factors is not supported"
    if any("_exps." in name for name in names):
        return "mixtures of experts are not supported"
    return ""
