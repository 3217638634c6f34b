"""GGUF files as models: the same logits, tokens and texts as the model they were written from."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import LlamaConfig

from specviz.bench.gguf_model import sizes_of
from specviz.engine import speculate
from specviz.engine.loading.gguf_config import config_of
from specviz.engine.loading.gguf_weights import read_tensor
from specviz.engine.loading.loading import load_pair
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.pair import Pair
from specviz.errors import PairError
from specviz.formats.gguf_header import read_header
from specviz.formats.gguf_writing import write_gguf
from specviz.formats.ollama import PREFIX
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from tests.engine.models import (
    CHAT_TEMPLATE,
    END,
    build,
    small_tokenizer,
    tiny_config,
    tiny_model,
    write_model,
)
from tests.formats.ggml_blocks import DECODERS
from tests.formats.gguf_words import words_of
from tests.formats.hostile_gguf import HOSTILE, UNUSABLE
from tests.formats.tiny_gguf import tiny_gguf

IDS = torch.tensor([[5, 77, 300, 41, 9, 120, 222, 64, 310, 33, 8, 91]])
FAMILIES = ("llama", "qwen2", "qwen3")


def write_file(folder: Path, model: Any, kind: str = "F32", **further: Any) -> Path:
    """Write a model and its tokenizer as a GGUF file."""
    small_tokenizer().save_pretrained(folder)
    words = words_of(folder / "tokenizer.json", CHAT_TEMPLATE)
    weights = {name: weight.numpy() for name, weight in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        del weights["lm_head.weight"]
    path = folder / f"{model.config.model_type}.{kind}.gguf"
    sizes = sizes_of(model.config)
    further.setdefault("kind_of", lambda _name: kind)
    write_gguf(path, sizes, weights.items(), words, **further)
    return path


def loaded(path: Path | str, **spec: Any) -> Pair:
    return load_pair(PairSpec(target=str(path), threads=1, **spec))


def finished(pair: Pair, config: RunConfig) -> tuple[int, ...]:
    """Return the tokens of a run."""
    run = speculate(pair, "Once upon", config)
    for _ in run:
        pass
    return run.emitted


@torch.inference_mode()
def logits(model: Any) -> torch.Tensor:
    return model(IDS).logits[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_those_of_the_model(tmp_path: Path, family: str) -> None:
    model = tiny_model(family)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight)
    pair = loaded(write_file(tmp_path, model.requires_grad_(False)))
    assert torch.equal(logits(pair.target), logits(model))
    assert pair.info.target.step == "lean"
    assert pair.info.target.family == family
    assert pair.tokenizer.encode("Once upon a time") == small_tokenizer().encode("Once upon a time")
    end: Any = small_tokenizer().convert_tokens_to_ids(END)
    assert pair.eos_ids == {end}
    chat = encode_prompt(pair, "hello", chat=True)
    assert pair.tokenizer.decode(chat) == "[user] hello\n[assistant] "


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_quantised_weights_are_those_that_were_written(tmp_path: Path, kind: str) -> None:
    model = tiny_model("qwen2").requires_grad_(False)
    path = write_file(tmp_path, model, kind)
    pair = loaded(path, dtype="float32")
    written = model.model.layers[1].mlp.down_proj.weight.numpy()
    number = gguf.GGMLQuantizationType[kind]
    expected = gguf.quants.dequantize(gguf.quants.quantize(written, number), number)
    target: Any = pair.target
    read = target.model.layers[1].mlp.down_proj.weight.numpy()
    np.testing.assert_array_equal(read, expected)
    assert re.search(r"dequantised: .* reads \d+\.\d+ times as many bytes", " ".join(pair.notices))
    assert kind in " ".join(pair.notices)


@pytest.mark.parametrize("kind", DECODERS)
def test_blocks_are_decoded_as_ggml_defines_them(tmp_path: Path, kind: str) -> None:
    number = gguf.GGMLQuantizationType[kind]
    _, size = gguf.GGML_QUANT_SIZES[number]
    chance, (scales, decode) = np.random.default_rng(0), DECODERS[kind]
    blocks = chance.integers(0, 256, (24, size), np.uint8)
    for place in scales:
        some = chance.uniform(-0.1, 0.1, (24, 1)).astype(np.float16)
        blocks[:, place : place + 2] = some.view(np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "blocks.gguf", "llama")
    writer.add_tensor("x", blocks.reshape(8, -1), raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = read_header(tmp_path / "blocks.gguf")
    read = read_tensor(header, header.tensors[0])
    expected = np.array([decode(each.tobytes()) for each in blocks])
    assert header.tensors[0].kind == kind
    np.testing.assert_allclose(read.ravel(), expected.ravel(), rtol=1e-5, atol=1e-6)


def test_llama_3_positions_follow_from_their_factors(tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3", "rope_theta": 500_000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
    }  # fmt: skip
    config = tiny_config(hidden_size=128, head_dim=32, rope_parameters=scaling)
    assert isinstance(config, LlamaConfig)
    model = build(config).requires_grad_(False)
    plain = 500_000.0 ** -(np.arange(0, 32, 2) / 32)
    factors = plain / model.model.rotary_emb.inv_freq.numpy()
    pair = loaded(write_file(tmp_path, model, rope_factors=factors))
    assert pair.target.config.rope_parameters == scaling
    assert torch.equal(logits(pair.target), logits(model))

    odd = np.linspace(1, 3, 16)
    path = write_file(tmp_path, model, rope_factors=odd)
    with pytest.raises(PairError, match=r"RoPE scaling of .* is unknown"):
        loaded(path)


def test_a_file_drafts_for_a_folder_and_a_folder_for_a_file(tmp_path: Path) -> None:
    model = tiny_model().requires_grad_(False)
    file, folder = write_file(tmp_path, model), tmp_path / "model"
    write_model(folder, model, small_tokenizer())
    config = RunConfig(gamma=3, temperature=0, max_new_tokens=12, ignore_eos=True)
    texts = [
        finished(loaded(target, draft=str(draft)), config)
        for target, draft in ((file, folder), (folder, file))
    ]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 12


def test_a_model_of_ollama_is_loaded_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_file(tmp_path, tiny_model().requires_grad_(False))
    digest = "ab" * 32
    blobs, manifests = tmp_path / "ollama" / "blobs", tmp_path / "ollama" / "manifests"
    manifest = manifests / "registry.ollama.ai" / "library" / "tiny" / "1m"
    manifest.parent.mkdir(parents=True)
    blobs.mkdir()
    os.link(file, blobs / f"sha256-{digest}")
    manifest.write_text(
        '{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:'
        + digest + '"}]}'
    )  # fmt: skip
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    pair = loaded(f"{PREFIX}tiny:1m")
    assert pair.info.target.name == "ollama:tiny:1m"
    with pytest.raises(PairError, match="no model 'other'"):
        loaded(f"{PREFIX}other")


@pytest.mark.parametrize("name", [*HOSTILE, *UNUSABLE])
def test_a_file_that_cannot_be_read_correctly_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file.gguf"
    path.write_bytes((HOSTILE | UNUSABLE)[name][0])
    with pytest.raises(PairError) as caught:
        loaded(path)
    assert "\n" not in str(caught.value)


def test_weights_that_do_not_fit_the_metadata_are_refused(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", tokens=40)
    loaded(path)
    content = path.read_bytes()
    renamed = tmp_path / "renamed.gguf"
    renamed.write_bytes(content.replace(b"blk.0.ffn_gate.weight", b"blk.0.ffn_late.weight"))
    with pytest.raises(PairError, match="unknown in this family"):
        loaded(renamed)
    sized = tmp_path / "sized.gguf"
    key = b"llama.feed_forward_length" + (4).to_bytes(4, "little")
    at = content.index(key) + len(key)
    sized.write_bytes(content[:at] + (96).to_bytes(4, "little") + content[at + 4 :])
    with pytest.raises(PairError, match="the shape of"):
        loaded(sized)


def test_a_missing_size_is_named(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", tokens=40)
    key = b"llama.embedding_length"
    path.write_bytes(path.read_bytes().replace(key, b"llama.embedding_lengtx"))
    with pytest.raises(PairError, match="how large"):
        config_of([read_header(path)], [])
