"""Times of single passes of large models, with and without the Triton kernels.

Prints the rows of the second table of "On a GPU" in the docs: milliseconds, and the share of the
memory bandwidth. Each is the median of nine replays of a captured pass after 300 tokens.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

import pytest
import torch

from specviz.engine import Pair, load_pair
from specviz.engine.graphed.lanes import GraphedLanes
from specviz.engine.graphed.playback import playback_on
from specviz.engine.graphed.text_state import rows_for
from specviz.engine.loading.hardware import measure_bandwidth
from specviz.engine.model.pass_bytes import pass_bytes
from specviz.errors import DeviceError
from specviz.measure.loaded_pairs import release_memory
from specviz.record.pairs import GRAPHED, PairSpec
from tests.gpu.test_truth import needs_cuda

pytestmark = pytest.mark.gpu

CONTEXT, REPLAYS, MOST_TOKENS = 300, 9, 6
SIZES = (("llama-3.2-1b", "llama-3.1-8b"), ("1B", "8B"))  # draft and target


def loaded(device: str, draft: str, target: str) -> Pair:
    needs_cuda(device)
    release_memory()  # that of another pair
    spec = PairSpec(device=device, dtype="bfloat16", step=GRAPHED)
    try:
        return load_pair(replace(spec, draft_body=draft, target_body=target))
    except DeviceError as error:
        pytest.skip(str(error))


def without_kernels(weights: Any) -> Any:
    return replace(weights, fused=False)


@torch.inference_mode()
def seconds_of(weights: Any, pair: Pair, count: int) -> float:
    seen = rows_for(CONTEXT + count)
    step, playback = weights.static_step(pair.vocabulary, seen), playback_on(pair.device)
    ids = torch.arange(seen, device=pair.device) * 37 % pair.vocabulary
    step.prefill(ids[:CONTEXT], 0)
    first = torch.tensor(CONTEXT, device=pair.device)
    logits = torch.zeros(count, pair.vocabulary, device=pair.device)

    def feed() -> None:
        logits.copy_(step.feed_at(ids[CONTEXT : CONTEXT + count], first, seen, count))

    stage, found = playback.capture(feed, []), list[float]()
    for _ in range(REPLAYS + 3):
        began = playback.mark()
        stage()
        found.append(playback.between(began, playback.mark()))
    return median(found[3:])


@pytest.mark.parametrize(("draft_body", "target_body"), SIZES)
def test_passes_are_faster_with_the_kernels(device: str, draft_body: str, target_body: str) -> None:
    pair = loaded(device, draft_body, target_body)
    assert isinstance(pair.lanes, GraphedLanes), pair.notices
    assert pair.notices == ()
    bandwidth = measure_bandwidth(pair.device)
    print(f"bandwidth {bandwidth / 1e12:.2f} TB/s")
    (target, draft), kinds = pair.lanes.weights, (without_kernels, lambda weights: weights)
    costs: list[float] = []  # seconds per byte of one token
    for body, weights, model in (
        (target_body, target, pair.target),
        (draft_body, draft, pair.draft),
    ):
        assert model is not None
        reads = pass_bytes(model)
        assert reads is not None
        size = reads.at(CONTEXT)
        for count in (1, MOST_TOKENS):
            found = [seconds_of(kind(weights), pair, count) for kind in kinds]
            cells = [f"{1e3 * each:.2f} ms ({size / each / bandwidth:.0%})" for each in found]
            print(f"{body}, {count} tokens: without kernels and with them {' and '.join(cells)}")
            assert found[1] < found[0]
            costs += [found[1] / size] if count == 1 else []
    print(f"c over the ratio of bytes, of passes alone: {costs[1] / costs[0]:.2f}")
