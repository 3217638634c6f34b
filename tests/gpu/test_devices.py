"""Device ordinals, several devices, precision flags and determinism."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from specviz.engine import Pair, load_pair, speculate
from specviz.engine.decoding.pipelined_run import PipelinedRun
from specviz.engine.loading import hardware
from specviz.record.pairs import GRAPHED, PairSpec
from specviz.record.prompts import read_presets
from tests.gpu.conftest import embedded
from tests.gpu.test_beside import CHOSEN, decisions
from tests.gpu.test_truth import TEXT, needs_cuda

pytestmark = pytest.mark.gpu

DTYPES = ("float32", "float16", "bfloat16")


def second_gpu(device: str) -> str:
    needs_cuda(device)
    if torch.cuda.device_count() < 2:
        pytest.skip("needs a second GPU")
    return f"cuda:{torch.cuda.device_count() - 1}"


def rounds_of(pair: Pair) -> list[object]:
    assert pair.notices == ()
    run = speculate(pair, TEXT, CHOSEN)
    assert isinstance(run, PipelinedRun)
    return decisions(list(run))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_pair_on_another_gpu_than_the_current_one_runs_with_graphs(
    device: str, dtype: str
) -> None:
    """Triton launches on the current GPU, and CUDA graphs on their own."""
    other = second_gpu(device)
    assert torch.cuda.current_device() == 0
    pair = load_pair(PairSpec(device=other, dtype=dtype, step=GRAPHED))
    assert str(pair.device) == other
    same = torch.cuda.get_device_name(0) == torch.cuda.get_device_name(other)
    found, known = rounds_of(pair), rounds_of(embedded("cuda", dtype, GRAPHED))
    assert torch.cuda.current_device() == 0
    assert found == known or not same
    both = (speculate(each, TEXT, CHOSEN) for each in (pair, embedded("cuda", dtype, GRAPHED)))
    turns = list(zip(*both, strict=False))  # two devices in turn
    assert decisions([one for one, _ in turns]) == found[: len(turns)]


def test_auto_dtype_and_free_memory_are_those_of_the_named_gpu(device: str) -> None:
    other = second_gpu(device)
    held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda:0")
    major = torch.cuda.get_device_properties(other).major
    chosen = hardware.choose_dtype("auto", torch.device(other))
    assert chosen == (torch.bfloat16 if major >= 8 else torch.float16)
    assert hardware.free_memory(torch.device(other)) == torch.cuda.mem_get_info(other)[0]
    del held


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_device_with_its_index_is_the_same_device(device: str, dtype: str) -> None:
    needs_cuda(device)
    pair = load_pair(PairSpec(device="cuda:0", dtype=dtype, step=GRAPHED))
    assert str(pair.device) == "cuda:0"
    assert rounds_of(pair) == rounds_of(embedded("cuda", dtype, GRAPHED))


def test_float32_uses_no_tf32(device: str) -> None:
    """In products and in attention; TF32 has 10 bits of precision."""
    needs_cuda(device)
    generator = torch.Generator().manual_seed(0)
    rows, matrix = (torch.randn(512, 512, generator=generator).cuda() for _ in range(2))
    exact = rows.double() @ matrix.double()
    for found in (rows @ matrix, F.linear(rows, matrix.T.contiguous())):
        assert float((found - exact).norm() / exact.norm()) < 1e-6
    query, key, value = (torch.randn(1, 4, 128, 64, generator=generator).cuda() for _ in range(3))
    mask = (
        torch.zeros(128, 128, device="cuda")
        .triu_(1)
        .masked_fill_(torch.ones(128, 128, device="cuda").triu_(1).bool(), float("-inf"))
    )
    attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    wide = (each.double() for each in (query, key, value))
    known = F.scaled_dot_product_attention(*wide, attn_mask=mask.double())
    assert float((attended - known).norm() / known.norm()) < 1e-5


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_repeated_runs_have_the_same_bits(device: str, dtype: str, temperature: float) -> None:
    """Also after other runs have used the memory, and with newly captured graphs."""
    needs_cuda(device)
    pair = embedded(device, dtype, GRAPHED)
    chosen = replace(CHOSEN, temperature=temperature, top_p=0.95, max_new_tokens=300)
    text = read_presets()[1].text
    known = decisions(list(speculate(pair, text, chosen)))
    for gamma in range(1, 9):
        list(speculate(pair, TEXT, replace(chosen, gamma=gamma, max_new_tokens=24)))
        assert decisions(list(speculate(pair, text, chosen))) == known
