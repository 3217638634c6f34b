"""Graphs next to other users of the device: other runs, other captures, failed captures."""

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


def decisions(rounds: list[Round]) -> list[object]:
    return [(each.emitted, [c.draft_prob for c in each.candidates]) for each in rounds]


def test_interleaved_runs_equal_separate_runs(device: str) -> None:
    pair = embedded(device, "bfloat16", GRAPHED)
    methods = [replace(CHOSEN, seed=seed) for seed in range(4)]
    known = [decisions(list(speculate(pair, TEXT, method))) for method in methods]
    turns = zip_longest(*(speculate(pair, TEXT, method) for method in methods))
    found = [[each for each in run if each] for run in zip(*turns, strict=True)]
    assert [decisions(each) for each in found] == known


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_replayed_rounds_are_the_same_in_a_longer_cache(device: str, temperature: float) -> None:
    """The number of cache rows attended to changes at 256 and 512 tokens."""
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


def test_other_captures_may_clear_workspaces(device: str) -> None:
    """As a compiler does, which frees cuBLAS workspaces."""
    needs_cuda(device)
    pair = embedded(device, "bfloat16", GRAPHED, "90M")
    known = decisions(list(speculate(pair, TEXT, CHOSEN)))
    numbers = torch.ones(64, 64, device=device)
    graph = torch.cuda.CUDAGraph()
    torch._C._cuda_clearCublasWorkspaces()
    with torch.no_grad(), torch.cuda.graph(graph):
        product = numbers @ numbers
    torch.cuda.empty_cache()
    taken = [torch.zeros(1 << 20, device=device) for _ in range(64)]
    graph.replay()
    assert decisions(list(speculate(pair, TEXT, CHOSEN))) == known
    assert not any(each.any() for each in taken)
    assert float(product[0, 0]) == 64.0


def test_memory_that_runs_out_in_a_capture_leaves_the_stream_and_the_pair(device: str) -> None:
    needs_cuda(device)
    pair = embedded(device, "bfloat16", GRAPHED)
    known = decisions(list(speculate(pair, TEXT, CHOSEN)))
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
    assert decisions(list(speculate(pair, TEXT, CHOSEN))) == known


def test_repeated_captures_do_not_leak_memory(device: str) -> None:
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
