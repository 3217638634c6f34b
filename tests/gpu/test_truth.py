"""Device, number type, clock, memory and bodies on a GPU, and what graphs add."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import torch

from specviz.engine import load_pair, speculate
from specviz.engine.decoding.pipelined_run import PipelinedRun
from specviz.engine.loading import hardware
from specviz.errors import DeviceError
from specviz.figures.metrics import metrics
from specviz.measure.measured_run import finish, measured_run
from specviz.record.pairs import GRAPHED, PairSpec
from specviz.record.trace import RunConfig
from tests.gpu.conftest import embedded

pytestmark = pytest.mark.gpu

TEXT = "Once upon a time there was a little girl"


def needs_cuda(device: str) -> None:
    if device != "cuda":
        pytest.skip("on CUDA alone")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("step", ["lean", "library", GRAPHED])
def test_a_whole_run_with_its_timing(device: str, dtype: str, step: str) -> None:
    pair = embedded(device, dtype, step)
    trace = finish(measured_run(pair, TEXT, RunConfig(max_new_tokens=64), budget=3.0))
    found = metrics(trace)
    assert trace.environment.dtype == dtype
    assert trace.step_costs is not None
    assert found.speedup_observed is not None
    assert found.speedup_accounted is not None
    ratio = found.speedup_observed / found.speedup_accounted
    print(f"{dtype} {step}: observed / accounted {ratio:.3f}, c {found.c:.3f}, v {found.v:.2f}")
    if device == "cuda" and step == GRAPHED:
        assert ratio >= 0.94  # the goal is 0.97


def test_auto_selects_the_gpu_its_dtype_and_graphs(device: str) -> None:
    needs_cuda(device)
    pair = load_pair(PairSpec())
    assert pair.device.type == "cuda"
    assert pair.environment.device_name == torch.cuda.get_device_name(pair.device)
    expected = torch.bfloat16 if torch.cuda.is_bf16_supported(False) else torch.float16
    assert pair.target.dtype == expected
    assert pair.lanes is not None, pair.notices


def test_graphs_can_be_turned_off(device: str) -> None:
    assert embedded(device, "float32", "lean").lanes is None


def test_the_host_waits_only_for_rounds(device: str) -> None:
    needs_cuda(device)
    pair = embedded(device, "bfloat16")
    chosen = RunConfig(gamma=5, max_new_tokens=200, ignore_eos=True)
    list(speculate(pair, TEXT, chosen))  # captures everything
    run = speculate(pair, TEXT, chosen)
    assert isinstance(run, PipelinedRun)
    next(run)
    torch.cuda.set_sync_debug_mode("error")
    try:
        assert len(list(run)) > 10
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_rounds_follow_each_other_without_a_gap(device: str) -> None:
    needs_cuda(device)
    pair = embedded(device, "bfloat16", GRAPHED, "500M")
    chosen = RunConfig(gamma=5, max_new_tokens=200, ignore_eos=True)
    list(speculate(pair, TEXT, chosen))
    rounds = list(speculate(pair, TEXT, chosen))
    gaps = sum(each.times.other for each in rounds)
    whole = sum(each.times.decode for each in rounds)
    print(f"gaps between rounds: {gaps / whole:.2%} of {whole:.3f} s")
    assert gaps < 0.1 * whole


def test_stages_are_captured_within_seconds(device: str) -> None:
    pair = embedded(device, "bfloat16", GRAPHED, "500M")
    began = time.perf_counter()
    next(speculate(pair, TEXT, RunConfig(gamma=7)))
    print(f"a new γ: first round after {time.perf_counter() - began:.2f} s")
    assert time.perf_counter() - began < 10.0


def test_a_body_that_does_not_fit_is_refused_before_memory_is_taken(device: str) -> None:
    needs_cuda(device)
    free = hardware.free_memory(torch.device("cuda"))
    with pytest.raises(DeviceError, match="does not fit"):
        load_pair(PairSpec(target_body="100B"))
    after = hardware.free_memory(torch.device("cuda"))
    assert free is not None
    assert after is not None
    assert after > 0.98 * free


@pytest.mark.parametrize("graphed", [True, False])
def test_out_of_memory_is_one_line_and_the_pair_recovers(device: str, graphed: bool) -> None:
    needs_cuda(device)
    pair = embedded(device, "bfloat16", GRAPHED, "500M")
    pair = pair if graphed else replace(pair, lanes=None)
    known = list(speculate(pair, TEXT, RunConfig(max_new_tokens=16)))
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    block = torch.empty(max(0, free - (64 << 20)), dtype=torch.uint8, device="cuda")
    long = replace(pair, max_context=None)
    with pytest.raises(DeviceError, match="Out of memory"):
        list(speculate(long, TEXT, RunConfig(max_new_tokens=100_000)))
    del block
    torch.cuda.empty_cache()
    again = list(speculate(pair, TEXT, RunConfig(max_new_tokens=16)))
    assert [each.emitted for each in again] == [each.emitted for each in known]


def test_memory_does_not_grow_over_two_thousand_runs(device: str) -> None:
    pair = embedded(device, "bfloat16" if device == "cuda" else "float32")
    generator = torch.Generator().manual_seed(0)
    runs = 2_000 if device == "cuda" else 20
    held: list[int] = []
    for number in range(runs):
        gamma, length, cold = torch.randint(1, 9, (3,), generator=generator).tolist()
        chosen = RunConfig(
            gamma=gamma, max_new_tokens=8 * length, temperature=(cold % 3) / 2, seed=number
        )
        list(speculate(pair, TEXT, chosen))
        held.append(torch.cuda.memory_reserved() if device == "cuda" else 0)
    settled = held[runs // 4 :]
    print(
        f"reserved after a quarter of the runs {settled[0] >> 20} MiB, at the end {held[-1] >> 20}"
    )
    assert max(settled) <= settled[0] + (256 << 20)
    assert held[-1] <= settled[0] + (64 << 20)
