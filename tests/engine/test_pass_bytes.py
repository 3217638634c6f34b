"""Bytes read by a pass, against counts by hand; and the bandwidth measurement."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf

from specviz.engine.loading import hardware
from specviz.engine.loading.hardware import Stream, measure_bandwidth, read_stream
from specviz.engine.model.pass_bytes import draft_bytes, pass_bytes
from specviz.record.step_costs import PassBytes
from specviz.record.trace import RunConfig
from tests.engine.models import VOCABULARY, build, pair_of, tiny_model
from tests.engine.recurrent_models import recurrent_model

WIDTH, INNER, LAYERS, HEADS, KEY_HEADS, HEAD = 32, 64, 2, 4, 2, 8
LLAMA_LAYER = (
    WIDTH * HEAD * (HEADS + 2 * KEY_HEADS)  # queries, keys, values
    + WIDTH * WIDTH  # and the output
    + 3 * WIDTH * INNER
    + 2 * WIDTH  # norms
)
LLAMA = LAYERS * LLAMA_LAYER + WIDTH + VOCABULARY * WIDTH  # the last norm and the output
LLAMA_CACHE = LAYERS * 2 * KEY_HEADS * HEAD
GPT2_LAYER = (
    4 * WIDTH  # two norms with biases
    + WIDTH * 3 * WIDTH + 3 * WIDTH
    + WIDTH * WIDTH + WIDTH
    + WIDTH * 4 * WIDTH + 4 * WIDTH
    + 4 * WIDTH * WIDTH + WIDTH
)  # fmt: skip
GPT2 = LAYERS * GPT2_LAYER + 2 * WIDTH + VOCABULARY * WIDTH


def test_a_llama_reads_one_row_of_an_embedding_that_is_not_the_output() -> None:
    own, tied = tiny_model(), tiny_model(tie_word_embeddings=True)
    assert pass_bytes(own) == PassBytes(weights=4 * (LLAMA + WIDTH), cache=4 * LLAMA_CACHE)
    assert pass_bytes(tied) == PassBytes(weights=4 * LLAMA, cache=4 * LLAMA_CACHE)


def test_a_gpt2_also_reads_a_row_of_its_position_table() -> None:
    cache = 4 * LAYERS * 2 * HEADS * HEAD
    own, tied = tiny_model("gpt2"), tiny_model("gpt2", tie_word_embeddings=True)
    assert pass_bytes(own) == PassBytes(weights=4 * (GPT2 + 2 * WIDTH), cache=cache)
    assert pass_bytes(tied) == PassBytes(weights=4 * (GPT2 + WIDTH), cache=cache)


def test_half_precision_halves_the_bytes() -> None:
    half: Any = tiny_model()
    half.to(torch.bfloat16)
    assert pass_bytes(half) == PassBytes(weights=2 * (LLAMA + WIDTH), cache=2 * LLAMA_CACHE)


def test_recurrent_states_are_counted_once_for_the_pass_and_once_for_its_snapshot() -> None:
    model = recurrent_model("mamba2")
    channels, width, states, kernel = 64, WIDTH, 8, 4  # 4 heads of 16
    state = channels * states + (channels + 2 * states) * kernel
    weights = sum(each.numel() for each in model.parameters()) - (VOCABULARY - 1) * width
    assert pass_bytes(model) == PassBytes(weights=4 * (weights + 2 * 2 * state), cache=0)
    one = pass_bytes(recurrent_model("lfm2"))
    assert one is not None
    assert one.cache == 4 * 2 * KEY_HEADS * HEAD  # of the only layer with attention


def test_mixtures_of_experts_are_not_counted() -> None:
    config = hf.MixtralConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=1,
        num_attention_heads=HEADS, num_key_value_heads=KEY_HEADS, num_local_experts=2,
    )  # fmt: skip
    assert pass_bytes(build(config)) is None


def test_bytes_of_the_drafting_model() -> None:
    """An early exit reads the first layers, the norm and the output."""
    pair = pair_of(tiny_model(), tiny_model("gpt2"))
    assert pair.draft is not None
    assert draft_bytes(pair, RunConfig()) == pass_bytes(pair.draft)
    exits = draft_bytes(pair, RunConfig(drafter="early-exit:1"))
    assert exits == PassBytes(
        weights=4 * (LLAMA + WIDTH - LLAMA_LAYER), cache=4 * LLAMA_CACHE // LAYERS
    )
    assert draft_bytes(pair, RunConfig(drafter="prompt-lookup")) is None


CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("device", "free", "stream"),
    [
        (CPU, 64 << 30, Stream(size=128 << 20, sums=1)),
        (CPU, None, Stream(size=128 << 20, sums=1)),
        (GPU, 78 << 30, Stream(size=4 << 30, sums=8)),
        (GPU, 4 << 30, Stream(size=1 << 30, sums=8)),
        (GPU, 4001, Stream(size=1000, sums=8)),
        (torch.device("mps"), None, Stream(size=512 << 20, sums=8)),
    ],
)
def test_a_gpu_gets_several_long_sums(
    device: torch.device, free: int | None, stream: Stream
) -> None:
    assert read_stream(device, free) == stream


def test_the_bandwidth_counts_all_sums_of_a_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def seconds(numbers: torch.Tensor, sums: int) -> float:
        asked.append((numbers.nbytes, sums))
        return 0.04

    monkeypatch.setattr(hardware, "_sum_seconds", seconds)
    monkeypatch.setattr(hardware, "read_stream", lambda *_: Stream(size=1 << 20, sums=5))
    assert measure_bandwidth(CPU) == 5 * (1 << 20) / 0.04
    assert asked == [(1 << 20, 1), *[(1 << 20, 5)] * 3]


def test_a_process_measures_the_bandwidth_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hardware._bandwidth.cache_clear()
    measured = iter([1e9, 2e9])
    monkeypatch.setattr(hardware, "measure_bandwidth", lambda _: next(measured))
    assert [hardware.read_bandwidth(CPU) for _ in range(2)] == [1e9, 1e9]
    hardware._bandwidth.cache_clear()  # no other test gets this value
