"""What else uses the device beside the graphs: other runs, other captures, captures that fail."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

import pytest
import torch

from specviz.engine import speculate
from specviz.engine.decoding.timed_replay import TimedReplay
from specviz.engine.graphed.playback import playback_on
from specviz.record.pairs import GRAPHED
from specviz.record.trace import Round, RunConfig
from tests.gpu.conftest import embedded
from tests.gpu.test_truth import TEXT, needs_cuda

pytestmark = pytest.mark.gpu

CHOSEN = RunConfig(gamma=4, max_new_tokens=80, ignore_eos=True, seed=3)


def told(rounds: list[Round]) -> list[object]:
    return [(each.emitted, [c.draft_prob for c in each.candidates]) for each in rounds]


def test_runs_in_turns_are_those_that_each_is_by_itself(device: str) -> None:
    pair = embedded(device, "bfloat16", GRAPHED)
    ways = [replace(CHOSEN, seed=seed) for seed in range(4)]
    known = [told(list(speculate(pair, TEXT, way))) for way in ways]
    turns = zip_longest(*(speculate(pair, TEXT, way) for way in ways))
    found = [[each for each in run if each] for run in zip(*turns, strict=True)]
    assert [told(each) for each in found] == known


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_rounds_played_again_are_the_same_over_a_longer_cache(
    device: str, temperature: float
) -> None:
    """Rows of the cache that are looked at change at 256 and 512 tokens."""
    pair = embedded(device, "bfloat16", GRAPHED, "90M")
    chosen = replace(CHOSEN, max_new_tokens=500, temperature=temperature)
    run = speculate(pair, TEXT, chosen)
    rounds = list(run)
    run.release()
    again = TimedReplay(pair, run.prompt.token_ids, chosen, rounds)
    for first in range(len(rounds) - 2, -1, -4):
        assert len(again.speculative(first, first + 1)) == 1
    assert all(seconds > 0.0 for seconds in again.alone(0, len(rounds)))
    assert again.prefill > 0.0


def test_others_may_capture_and_empty_what_is_kept(device: str) -> None:
    """As a compiler does, which has the room that products work in freed."""
    needs_cuda(device)
    pair = embedded(device, "bfloat16", GRAPHED, "90M")
    known = told(list(speculate(pair, TEXT, CHOSEN)))
    numbers = torch.ones(64, 64, device=device)
    graph = torch.cuda.CUDAGraph()
    torch._C._cuda_clearCublasWorkspaces()
    with torch.no_grad(), torch.cuda.graph(graph):
        product = numbers @ numbers
    torch.cuda.empty_cache()
    taken = [torch.zeros(1 << 20, device=device) for _ in range(64)]
    graph.replay()
    assert told(list(speculate(pair, TEXT, CHOSEN))) == known
    assert not any(each.any() for each in taken)
    assert float(product[0, 0]) == 64.0


def test_memory_that_runs_out_in_a_capture_leaves_the_stream_and_the_pair(device: str) -> None:
    needs_cuda(device)
    pair = embedded(device, "bfloat16", GRAPHED)
    known = told(list(speculate(pair, TEXT, CHOSEN)))
    here, playback = torch.cuda.current_stream(pair.device), playback_on(pair.device)
    numbers, calls = torch.ones(4, device=pair.device), []

    def work() -> None:
        numbers.add_(1.0)
        calls.append(torch.cuda.is_current_stream_capturing())
        if len(calls) == 2:
            raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        playback.capture(work, [numbers])
    assert calls == [False, True]
    assert numbers.tolist() == [1.0] * 4
    assert torch.cuda.current_stream(pair.device) == here
    torch.cuda.empty_cache()
    assert list(speculate(pair, TEXT, replace(CHOSEN, gamma=7)))  # captured now
    assert told(list(speculate(pair, TEXT, CHOSEN))) == known


def test_a_stage_that_is_captured_again_and_again_takes_no_more_memory(device: str) -> None:
    needs_cuda(device)
    playback = playback_on(torch.device(device))
    numbers = torch.ones(512, 512, device=device)
    place = torch.zeros(512, 512, device=device)
    held: list[int] = []
    for _ in range(80):  # more than torch has streams
        work = playback.capture(lambda: place.copy_(numbers @ numbers), [])  # pyright: ignore[reportArgumentType]
        work()
        del work
        held.append(torch.cuda.memory_reserved())
    assert max(held[8:]) <= held[8] + (4 << 20)
    assert float(place[0, 0]) == 512.0
