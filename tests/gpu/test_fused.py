"""Steps of Triton kernels: the logits and caches of the static step, on every shape of model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from specviz.engine import speculate
from specviz.engine.decoding.pipelined_run import PipelinedRun
from specviz.engine.graphed.lanes import GraphedLanes
from specviz.engine.graphed.playback import playback_on
from specviz.engine.model.fused_step import FusedStep
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.static_step import StaticStep
from specviz.record.trace import RunConfig
from tests.engine.models import stir, tiny_model
from tests.gpu.conftest import embedded
from tests.gpu.test_truth import TEXT, needs_cuda

pytestmark = pytest.mark.gpu

VOCABULARY, ROWS = 300, 1300
WIDE = {"hidden_size": 192, "intermediate_size": 320, "head_dim": 32, "num_attention_heads": 6}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "grouped heads": ("llama", {"num_key_value_heads": 2}),
    "every head its own keys": ("llama", {"num_key_value_heads": 6}),
    "wide heads": ("llama", {"num_key_value_heads": 1, "head_dim": 128}),
    "biases": ("llama", {"num_key_value_heads": 3, "attention_bias": True, "mlp_bias": True}),
    "biases of queries, keys and values": ("qwen2", {"num_key_value_heads": 2}),
    "norms of heads": ("qwen3", {"num_key_value_heads": 2}),
    "windows": ("mistral", {"num_key_value_heads": 2, "sliding_window": 150}),
    "other widths": ("llama", {"hidden_size": 224, "intermediate_size": 352}),
}


def weights_of(shape: str) -> LeanWeights:
    family, changes = SHAPES[shape]
    model: Any = stir(tiny_model(family, vocabulary=VOCABULARY, sigma=0.08, **(WIDE | changes)))
    weights = LeanWeights.take(model.to("cuda", torch.bfloat16))
    assert weights is not None
    fused = weights.with_fused_kernels()
    assert fused is not None
    return fused


def off(ours: torch.Tensor, known: torch.Tensor) -> float:
    return float((ours.float() - known.float()).norm() / known.float().norm())


@pytest.mark.parametrize("shape", SHAPES)
@torch.inference_mode()
def test_fused_logits_and_caches_match_the_static_step(device: str, shape: str) -> None:
    needs_cuda(device)
    weights = weights_of(shape)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, VOCABULARY, (ROWS,), generator=generator).cuda()
    fused, static = weights.static_step(VOCABULARY, ROWS), StaticStep(weights, VOCABULARY, ROWS)
    assert isinstance(fused, FusedStep)
    for begin, seen in ((0, 256), (5, 256), (255, 512), (640, 1024), (1270, 1300)):
        for count in (1, 2, 4, 7, 17):
            for step in (fused, static):
                step.prefill(ids[:begin], 0) if begin else None
            first = torch.tensor(begin, device="cuda")
            fed = ids[begin : begin + count]
            ours = fused.feed_at(fed, first, seen, min(count, 5))
            known = static.feed_at(fed, first, seen, min(count, 5))
            assert off(ours, known) < 0.02, (begin, count)
            for mine, theirs in ((fused._keys, static._keys), (fused._values, static._values)):
                assert off(mine[:, :, : begin + count], theirs[:, :, : begin + count]) < 0.02
    two = ids[[9, 0]]  # as at the start of a text of one token
    before = torch.tensor(-1, device="cuda")
    assert off(fused.feed_at(two, before, 256, 1), static.feed_at(two, before, 256, 1)) < 0.02


@torch.inference_mode()
def test_replays_of_one_pass_give_the_same_bits(device: str) -> None:
    needs_cuda(device)
    pair = embedded(device, "bfloat16", body="500M")
    assert isinstance(pair.lanes, GraphedLanes), pair.notices
    target, _ = pair.lanes.weights
    step, playback = target.static_step(pair.vocabulary, 1024), playback_on(pair.device)
    ids = torch.arange(900, device=device) * 37 % pair.vocabulary
    step.prefill(ids[:700], 0)
    first = torch.tensor(700, device=device)
    for count in (1, 6):
        logits = torch.zeros(count, pair.vocabulary, device=device)

        def feed(count: int = count, logits: torch.Tensor = logits) -> None:
            logits.copy_(step.feed_at(ids[700 : 700 + count], first, 1024, count))

        stage = playback.capture(feed, [])
        stage()
        known = logits.clone()
        for _ in range(300):
            logits.zero_()
            stage()
            assert torch.equal(logits, known)


@pytest.mark.parametrize("body", ["none", "90M", "500M"])
def test_pairs_in_bfloat16_run_with_the_kernels(device: str, body: str) -> None:
    needs_cuda(device)
    pair = embedded(device, "bfloat16", body=body)
    assert pair.notices == ()
    assert isinstance(pair.lanes, GraphedLanes)
    assert all(each is not None and each.fused for each in pair.lanes.weights)  # pyright: ignore[reportAttributeAccessIssue]
    run = speculate(pair, TEXT, RunConfig(max_new_tokens=40, ignore_eos=True))
    assert isinstance(run, PipelinedRun)
    assert len(list(run)) > 3
