"""llama.cpp's lanes: the same weights give the same text, timed without the first pass."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from specviz.bench import bench, llamacpp
from specviz.bench.divergence import divergences
from specviz.bench.gguf_model import cannot_write
from specviz.bench.lanes import BenchLane
from specviz.bench.timing import SHORTEST, time_lanes
from specviz.engine import decode_plainly
from specviz.engine.loading.loading import load_pair
from specviz.engine.model.pair import Pair
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.trace import RunConfig
from tests.engine.models import tiny_model

LENGTH = 60
PROMPTS = tuple(preset.text for preset in read_presets()[:3])

installed = pytest.mark.skipif(
    llamacpp.version() is None,
    reason="llama.cpp IS NOT COMPARED: pip install -r requirements-rivals.txt",
)


@pytest.fixture(scope="module")
def real_pair() -> Pair:
    """Trained weights, whose greedy text has no near ties."""
    return load_pair(PairSpec(threads=1))


@pytest.fixture(scope="module")
def opened(real_pair: Pair) -> Iterator[dict[str, BenchLane]]:
    with llamacpp.open_lanes(real_pair, 5) as found:
        yield {lane.key: lane for lane in found}


def ids_of(pair: Pair, prompt: str) -> list[int]:
    return pair.tokenizer(prompt)["input_ids"]


def plain_text(pair: Pair, ids: list[int], length: int = LENGTH) -> tuple[int, ...]:
    config = RunConfig(temperature=0.0, max_new_tokens=length, ignore_eos=True)
    return tuple(decode_plainly(pair, ids, config))


@installed
@pytest.mark.parametrize("prompt", PROMPTS)
def test_text_equals_ours_up_to_a_near_tie(
    real_pair: Pair, opened: dict[str, BenchLane], prompt: str
) -> None:
    ids = ids_of(real_pair, prompt)
    words = {key: lane.write(ids, LENGTH).token_ids for key, lane in opened.items()}
    assert set(words) == {"llamacpp", "llamacpp_speculative"}
    parted = divergences(real_pair, "story", ids, words, plain_text(real_pair, ids), set())
    assert all(len(each) == LENGTH for each in words.values())
    assert all(each.position >= SHORTEST and each.margin < 0.01 for each in parted)


@installed
def test_ignores_eos(real_pair: Pair, opened: dict[str, BenchLane]) -> None:
    ids = ids_of(real_pair, "They were happy and went home. The end.\n")
    ours = plain_text(real_pair, ids)
    assert real_pair.eos_ids & set(ours[:-1])
    assert opened["llamacpp"].write(ids, LENGTH).token_ids == ours


@installed
def test_time_excludes_the_prompt(real_pair: Pair, opened: dict[str, BenchLane]) -> None:
    """Reading hundreds of tokens takes many times as long as writing eight."""
    ids = (ids_of(real_pair, PROMPTS[0]) * 100)[:900]
    began = time.perf_counter()
    seconds = opened["llamacpp"].write(ids, 8).seconds
    assert 0 < seconds < (time.perf_counter() - began) / 2


@installed
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_supports_half_precision(dtype: str) -> None:
    pair = load_pair(PairSpec(threads=1, dtype=dtype))
    ids = ids_of(pair, PROMPTS[0])
    with llamacpp.open_lanes(pair, 5) as lanes:
        words = lanes[0].write(ids, 12).token_ids
    assert words == plain_text(pair, ids, 12)


@installed
def test_supports_grouped_heads_and_an_untied_output(pair: Pair) -> None:
    """The tiny models have both; random weights diverge early, so few tokens are compared."""
    config: Any = pair.target.config
    assert config.num_key_value_heads < config.num_attention_heads
    assert not config.tie_word_embeddings
    ids = ids_of(pair, "Once upon a time there was")
    with llamacpp.open_lanes(pair, 3) as lanes:
        for lane in lanes:
            assert lane.write(ids, 8).token_ids == plain_text(pair, ids, 8)


@installed
def test_enlarged_target_writes_the_same_text() -> None:
    pair = load_pair(PairSpec(threads=1, target_body="20M"))
    ids = ids_of(pair, PROMPTS[0])
    with llamacpp.open_lanes(pair, 5) as lanes:
        for lane in lanes:
            assert lane.write(ids, 12).token_ids == plain_text(pair, ids, 12)


@installed
def test_bench_times_both_lanes(real_pair: Pair, opened: dict[str, BenchLane]) -> None:
    lanes = (*bench.own_lanes(real_pair, bench._config(24)), *opened.values())
    texts = bench._texts(real_pair, read_presets()[:1], 24)
    timed = time_lanes(real_pair, lanes, texts, 6, lambda _: None)
    ratios = bench.paired_ratios(bench._COMPARISONS_OF_A_BODY, timed.seconds)
    for name in ("body_speculative_vs_llamacpp", "body_plain_vs_llamacpp"):
        found = ratios[name]
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        assert 0 < found.low <= found.value <= found.high


def test_no_lane_if_missing_or_unsupported(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llamacpp, "_PACKAGES", ("json",))
    assert llamacpp.missing(pair) is None
    on_gpu = replace(pair, device=torch.device("cuda"))
    assert llamacpp.missing(on_gpu) == "llama.cpp is compared on the CPU only"
    other = replace(pair, target=tiny_model("qwen2"))
    assert llamacpp.missing(other) == (
        "llama.cpp has no lane: GGUF files of the model family qwen2 are not supported"
    )
    monkeypatch.setattr(llamacpp, "_PACKAGES", ("no_such_package",))
    assert llamacpp.missing(pair) == ("llama.cpp is not installed: make rivals")


def test_rejects_unknown_weights(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    assert cannot_write(model) is None
    model.model.layers[0].self_attn.o_proj.bias = torch.nn.Parameter(torch.zeros(32))
    assert cannot_write(model) == (
        "GGUF files with the weight model.layers.0.self_attn.o_proj.bias are not supported"
    )
    stretched = tiny_model("llama")
    monkeypatch.setitem(stretched.config.rope_parameters, "rope_type", "llama3")
    assert cannot_write(stretched) == "GGUF files with RoPE scaling are not supported"
