"""On a pretended GPU, rounds equal those on the CPU: no tensor is on the wrong device.

No captured stage reads a value on the host or copies one to the device. ``tests/gpu`` has the same
runs on a real GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.engine import decode_plainly, speculate
from specviz.engine.decoding.costs import measure_step_costs
from specviz.engine.decoding.pipelined_run import PipelinedRun
from specviz.engine.graphed import lanes
from specviz.record.pairs import GRAPHED
from tests.engine.device_runs import (
    GRAPHED_METHODS,
    HEADS,
    STEPWISE_METHODS,
    forked_methods,
    head_rounds,
    pair_on,
    rounds_of,
)
from tests.engine.playing import PROMPT, config
from tests.engine.pretended_gpu import GPU, pretended_gpu
from tests.engine.test_graphed_rounds import assert_same, decisions

LENGTH = 8  # tokens of a run; each takes the pretended GPU 0.1 s


@pytest.fixture
def gpu() -> Iterator[None]:
    with pretended_gpu():
        yield


@pytest.mark.parametrize("method", GRAPHED_METHODS)
def test_rounds_on_the_device_equal_those_on_the_cpu(method: str) -> None:
    chosen = GRAPHED_METHODS[method]
    known = rounds_of(pair_on("cpu", GRAPHED), chosen, LENGTH)
    with pretended_gpu():
        pair = pair_on(GPU, GRAPHED)
        assert isinstance(speculate(pair, PROMPT, config(gamma=4, **chosen)), PipelinedRun)
        assert_same(rounds_of(pair, chosen, LENGTH), known)


def test_forks_on_the_device_equal_those_on_the_cpu() -> None:
    for chosen in forked_methods(pair_on("cpu", GRAPHED)):
        known = rounds_of(pair_on("cpu", GRAPHED), chosen, 12)
        with pretended_gpu():
            assert_same(rounds_of(pair_on(GPU, GRAPHED), chosen, 12), known)


@pytest.mark.parametrize("method", STEPWISE_METHODS)
@pytest.mark.parametrize("step", ["lean", pytest.param("library", marks=pytest.mark.thorough)])
def test_rounds_driven_by_the_host_equal_those_on_the_cpu(method: str, step: str) -> None:
    chosen = STEPWISE_METHODS[method]
    known = rounds_of(pair_on("cpu", step), chosen, LENGTH)
    with pretended_gpu():
        assert_same(rounds_of(pair_on(GPU, step), chosen, LENGTH), known)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(each, marks=() if each == "eagle3" else pytest.mark.thorough) for each in HEADS],
)
def test_rounds_of_a_head_equal_those_on_the_cpu(kind: str, tmp_path: Path) -> None:
    shapes: list[dict[str, Any]] = [{}, {"temperature": 0.0, "rule": "match"}, *HEADS[kind]]
    for chosen in shapes:
        known = head_rounds("cpu", kind, tmp_path, length=8, **chosen)
        with pretended_gpu():
            found = head_rounds(GPU, kind, tmp_path, length=8, **chosen)
        assert [decisions(each) for each in found] == [decisions(each) for each in known]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_target_alone_emits_the_text_of_the_cpu(temperature: float) -> None:
    chosen = config(temperature=temperature, max_new_tokens=LENGTH)
    known = list(decode_plainly(pair_on("cpu", GRAPHED), PROMPT, chosen))
    with pretended_gpu():
        assert list(decode_plainly(pair_on(GPU, GRAPHED), PROMPT, chosen)) == known


@pytest.mark.thorough
@pytest.mark.usefixtures("gpu")
def test_step_costs_are_measured() -> None:
    for step in (GRAPHED, "lean"):
        costs = measure_step_costs(pair_on(GPU, step), config(), contexts=(20,), repeats=1)
        assert costs is not None
        assert min(costs.target[0]) > 0.0


@pytest.mark.usefixtures("gpu")
def test_the_pretended_gpu_refuses_what_a_gpu_refuses() -> None:
    ours, theirs = torch.ones(2, device=GPU), torch.ones(2)
    assert ours.device == torch.device(GPU)
    assert (ours + 1).tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="same device"):
        ours.add(theirs)
    with pytest.raises(RuntimeError, match="numpy"):
        ours.numpy()


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    "work",
    [
        lambda numbers: numbers.sum().item(),
        lambda numbers: bool(numbers[0]),
        lambda numbers: numbers.tolist(),
        lambda numbers: numbers[numbers > 0],
        lambda numbers: numbers.add_(torch.tensor([1.0, 2.0], device=numbers.device)),
    ],
    ids=["item", "bool", "list", "mask", "constant"],
)
def test_the_pretended_gpu_refuses_host_reads_and_copies_in_a_capture(work: Any) -> None:
    numbers = torch.ones(2, device=GPU)
    stage = lanes.playback_on(numbers.device).capture(lambda: work(numbers), [numbers])
    with pytest.raises(RuntimeError, match="capturing"):
        stage()
