"""llama.cpp's lanes: the same weights give the same words, at a pace without its first pass."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from specviz.bench import bench, llamacpp
from specviz.bench.divergence import divergences
from specviz.bench.gguf_file import cannot_write
from specviz.bench.lanes import Lane
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
    """Trained weights, whose greedy words are no near ties."""
    return load_pair(PairSpec(threads=1))


@pytest.fixture(scope="module")
def opened(real_pair: Pair) -> Iterator[dict[str, Lane]]:
    with llamacpp.opened_lanes(real_pair, 5) as found:
        yield {lane.key: lane for lane in found}


def ids_of(pair: Pair, prompt: str) -> list[int]:
    return pair.tokenizer(prompt)["input_ids"]


def plain_words(pair: Pair, ids: list[int], length: int = LENGTH) -> tuple[int, ...]:
    config = RunConfig(temperature=0.0, max_new_tokens=length, ignore_eos=True)
    return tuple(decode_plainly(pair, ids, config))


@installed
@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_words_are_ours_up_to_a_near_tie(
    real_pair: Pair, opened: dict[str, Lane], prompt: str
) -> None:
    ids = ids_of(real_pair, prompt)
    words = {key: lane.write(ids, LENGTH).token_ids for key, lane in opened.items()}
    assert set(words) == {"llamacpp", "llamacpp_speculative"}
    parted = divergences(real_pair, "story", ids, words, plain_words(real_pair, ids), set())
    assert all(len(each) == LENGTH for each in words.values())
    assert all(each.position >= SHORTEST and each.margin < 0.01 for each in parted)


@installed
def test_the_end_of_a_text_is_run_past(real_pair: Pair, opened: dict[str, Lane]) -> None:
    ids = ids_of(real_pair, "They were happy and went home. The end.\n")
    ours = plain_words(real_pair, ids)
    assert real_pair.eos_ids & set(ours[:-1])
    assert opened["llamacpp"].write(ids, LENGTH).token_ids == ours


@installed
def test_the_pace_leaves_the_prompt_out(real_pair: Pair, opened: dict[str, Lane]) -> None:
    """A prompt of hundreds of tokens takes many times as long as writing eight."""
    ids = (ids_of(real_pair, PROMPTS[0]) * 100)[:900]
    began = time.perf_counter()
    seconds = opened["llamacpp"].write(ids, 8).seconds
    assert 0 < seconds < (time.perf_counter() - began) / 2


@installed
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_read_too(dtype: str) -> None:
    pair = load_pair(PairSpec(threads=1, dtype=dtype))
    ids = ids_of(pair, PROMPTS[0])
    with llamacpp.opened_lanes(pair, 5) as lanes:
        words = lanes[0].write(ids, 12).token_ids
    assert words == plain_words(pair, ids, 12)


@installed
def test_grouped_heads_and_an_output_of_its_own_are_written_too(pair: Pair) -> None:
    """The test's own tiny models have both; random weights part early, so few words are asked."""
    config: Any = pair.target.config
    assert config.num_key_value_heads < config.num_attention_heads
    assert not config.tie_word_embeddings
    ids = ids_of(pair, "Once upon a time there was")
    with llamacpp.opened_lanes(pair, 3) as lanes:
        for lane in lanes:
            assert lane.write(ids, 8).token_ids == plain_words(pair, ids, 8)


@installed
def test_a_grown_target_says_the_same_there_too() -> None:
    pair = load_pair(PairSpec(threads=1, target_body="20M"))
    ids = ids_of(pair, PROMPTS[0])
    with llamacpp.opened_lanes(pair, 5) as lanes:
        for lane in lanes:
            assert lane.write(ids, 12).token_ids == plain_words(pair, ids, 12)


@installed
def test_the_bench_times_both_lanes(real_pair: Pair, opened: dict[str, Lane]) -> None:
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


def test_it_has_no_lane_where_it_is_missing_or_cannot_follow(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llamacpp, "_PACKAGES", ("json",))
    assert llamacpp.missing(pair) is None
    on_gpu = replace(pair, device=torch.device("cuda"))
    assert llamacpp.missing(on_gpu) == "llama.cpp is compared on the CPU only"
    other = replace(pair, target=tiny_model("qwen2"))
    assert llamacpp.missing(other) == (
        "llama.cpp has no lane: models of the family qwen2 are not written for it"
    )
    monkeypatch.setattr(llamacpp, "_PACKAGES", ("no_such_package",))
    assert llamacpp.missing(pair) == (
        "llama.cpp is not installed: pip install -r requirements-rivals.txt"
    )


def test_unknown_weights_are_not_dropped(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    assert cannot_write(model) is None
    model.model.layers[0].self_attn.q_proj.bias = torch.nn.Parameter(torch.zeros(32))
    assert cannot_write(model) == (
        "the weight model.layers.0.self_attn.q_proj.bias is not written for it"
    )
    stretched = tiny_model("llama")
    monkeypatch.setitem(stretched.config.rope_parameters, "rope_type", "llama3")
    assert cannot_write(stretched) == "scaled positions are not written for it"
