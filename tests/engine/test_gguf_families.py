"""GGUF files of more families: the same logits as the model that was written.

The files have the metadata that the converters of llama.cpp and Ollama write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Starcoder2Config

from specviz.engine.loading.loading import load_pair
from specviz.errors import PairError
from specviz.record.pairs import PairSpec
from tests.engine.models import VOCABULARY, WINDOW, build, small_tokenizer, stir, tiny_model
from tests.formats.gguf_families import write_family
from tests.formats.gguf_words import words_of

IDS = torch.tensor([[5, 77, 300, 41, 9, 120, 222, 64, 310, 33, 8, 91, 17, 204]])
CLOSE = 1e-4
SIZES = {
    "context_length": 512, "block_count": 2, "embedding_length": 32, "feed_forward_length": 64,
    "attention.head_count": 4,
}  # fmt: skip
EPS = 1e-3  # unlike the default of any family
RMS = SIZES | {"attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": EPS}
EPSILON = {"attention.layer_norm_epsilon": EPS}
GLOBAL, LOCAL = 500_000.0, 5_000.0  # RoPE bases; the second one in layers with a window
PLAIN: dict[str, Any] = {"rope_type": "default", "rope_theta": GLOBAL}


@dataclass(frozen=True, kw_only=True)
class Written:
    """A model, and what its file says about it."""

    model: Any
    architecture: str
    keys: dict[str, Any]

    def load(self, folder: Path) -> Any:
        small_tokenizer().save_pretrained(folder)
        path = folder / "model.gguf"
        words = words_of(folder / "tokenizer.json")
        write_family(path, self.model, self.architecture, self.keys, words)
        return load_pair(PairSpec(target=str(path), threads=1))


def gemma(full: tuple[int, ...], further: dict[str, Any], **changes: Any) -> Written:
    """A model whose layers with these numbers have full attention."""
    kinds = ["full_attention" if n in full else "sliding_attention" for n in range(1, 7)]
    positions = changes.pop("positions", PLAIN)
    model = tiny_model(
        "gemma3_text", sigma=0.6, num_hidden_layers=6, layer_types=kinds, head_dim=16,
        query_pre_attn_scalar=16, tie_word_embeddings=True, rms_norm_eps=EPS,
        rope_parameters={
            "full_attention": positions,
            "sliding_attention": PLAIN | {"rope_theta": LOCAL},
        },
        **changes,
    )  # fmt: skip
    lengths = {"attention.key_length": 16, "attention.value_length": 16}
    window = {"attention.sliding_window": WINDOW}
    return Written(
        model=model,
        architecture="gemma3",
        keys=RMS | {"block_count": 6} | lengths | window | further,
    )


def llama(further: dict[str, Any], positions: dict[str, Any]) -> Written:
    model = tiny_model("llama", rope_parameters=positions, rms_norm_eps=EPS)
    keys = RMS | {"rope.freq_base": positions["rope_theta"]} | further
    return Written(model=model, architecture="llama", keys=keys)


def starcoder(*, bias: bool, tied: bool) -> Written:
    config = Starcoder2Config(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, use_bias=bias,
        tie_word_embeddings=tied, rope_parameters=PLAIN, norm_epsilon=EPS, sliding_window=None,
        residual_dropout=0.0, embedding_dropout=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    config.initializer_range = 0.3
    keys = SIZES | EPSILON | {"attention.head_count_kv": 2, "rope.freq_base": GLOBAL}
    return Written(model=build(config), architecture="starcoder2", keys=keys)


def gpt2(*, tied: bool) -> Written:
    model = tiny_model("gpt2", tie_word_embeddings=tied, layer_norm_epsilon=EPS)
    model.tie_weights()
    keys = SIZES | EPSILON | {"feed_forward_length": 128}
    return Written(model=model, architecture="gpt2", keys=keys)


SWA = {"rope.freq_base": GLOBAL, "rope.freq_base_swa": LOCAL}
LINEAR, FACTOR = {"rope.scaling.type": "linear"}, {"rope.scaling.factor": 4.0}
OF_OLLAMA = {
    "rope.global.freq_base": GLOBAL, "rope.local.freq_base": LOCAL,
    "attention.sliding_window_pattern": [n not in (2, 5) for n in range(1, 7)],
}  # fmt: skip
SOFT = {"attention.sliding_window_pattern": 3, "final_logit_softcapping": 5.0}
STRETCHED = PLAIN | {"rope_type": "linear", "factor": 4.0}

CASES: dict[str, Callable[[], Written]] = {
    "gemma3": lambda: gemma((6,), SWA),
    "gemma3, linear": lambda: gemma((6,), SWA | LINEAR | FACTOR, positions=STRETCHED),
    "gemma3, softcapping": lambda: gemma((3, 6), SWA | SOFT, final_logit_softcapping=5.0),
    "gemma3, softcapping off": lambda: gemma((3, 6), SWA | SOFT | {"final_logit_softcapping": 0.0}),
    "gemma3 of Ollama": lambda: gemma((2, 5), OF_OLLAMA),
    "starcoder2": lambda: starcoder(bias=True, tied=True),
    "starcoder2 without biases": lambda: starcoder(bias=False, tied=False),
    "gpt2": lambda: gpt2(tied=True),
    "gpt2 with an output matrix": lambda: gpt2(tied=False),
    "llama, linear": lambda: llama(LINEAR | FACTOR, STRETCHED),
    "llama, a factor without a type": lambda: llama(FACTOR, STRETCHED),
    "llama, an old key": lambda: llama({"rope.scale_linear": 4.0}, STRETCHED),
    "llama, an unused factor": lambda: llama(FACTOR | {"rope.scaling.type": "none"}, PLAIN),
}


@torch.inference_mode()
def logits(model: Any) -> torch.Tensor:
    return model(IDS).logits[0]


@pytest.mark.parametrize("name", CASES)
def test_logits_are_close_to_those_of_the_model(tmp_path: Path, name: str) -> None:
    written = CASES[name]()
    stir(written.model).requires_grad_(False)
    pair = written.load(tmp_path)
    expected = logits(written.model)
    assert float(expected.std()) > 0.1  # constant logits would prove nothing
    assert float((logits(pair.target) - expected).abs().max()) <= CLOSE
    assert pair.info.target.family == written.model.config.model_type
    assert pair.max_context == 512


def test_a_missing_bias_is_refused(tmp_path: Path) -> None:
    """A file that lacks a bias is refused instead of run without it."""
    written = starcoder(bias=True, tied=True)
    state = written.model.state_dict()
    assert "model.layers.1.mlp.c_fc.bias" in state
    written.model.model.layers[1].mlp.c_fc.bias = None
    with pytest.raises(PairError, match=r"it lacks model\.layers\.1\.mlp\.c_fc\.bias"):
        written.load(tmp_path)
