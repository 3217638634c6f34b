"""What may break a capture, its graphs and their memory on a device."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from specviz.engine import load_pair, speculate
from specviz.engine.graphed.playback import OnCuda
from specviz.errors import DeviceError
from specviz.folders import child_environment
from specviz.record.pairs import GRAPHED, PairSpec
from specviz.record.trace import RunConfig
from tests.gpu.conftest import embedded
from tests.gpu.test_beside import CHOSEN, decisions
from tests.gpu.test_truth import TEXT, needs_cuda

pytestmark = pytest.mark.gpu

RUN = f"""
from specviz.engine import load_pair, speculate
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig

pair = load_pair(PairSpec(device="cuda", dtype="bfloat16", step="graphed"))
run = speculate(pair, {TEXT!r}, RunConfig(max_new_tokens=40, ignore_eos=True))
next(run)
rest = run if whole else []
print(sum(len(each.emitted) for each in rest), pair.notices)
"""


@pytest.fixture
def playback(device: str) -> OnCuda:
    needs_cuda(device)
    return OnCuda(torch.device("cuda"))


def rounds_of(**changes: Any) -> list[object]:
    pair = embedded("cuda", "bfloat16", GRAPHED)
    return decisions(list(speculate(pair, TEXT, replace(CHOSEN, **changes))))


@contextmanager
def no_more_memory() -> Iterator[None]:
    """Let the device have no memory beyond what torch has reserved."""
    torch.cuda.empty_cache()
    whole = torch.cuda.get_device_properties("cuda").total_memory
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / whole)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_after_a_capture_that_reads_a_value_the_next_capture_works(playback: OnCuda) -> None:
    """CUDA invalidates the capture, and torch goes on recording to its memory pool."""
    numbers = torch.ones(8, device="cuda")
    capturing: list[bool] = []

    def read() -> None:
        capturing.append(torch.cuda.is_current_stream_capturing())
        numbers.sum().item()

    for _ in range(2):
        with pytest.raises(RuntimeError, match="captur"):
            playback.capture(read, [])
    assert capturing == [False, True] * 2
    stage = playback.capture(lambda: numbers.add_(1.0), [numbers])  # pyright: ignore[reportArgumentType]
    stage()
    assert numbers.tolist() == [2.0] * 8
    torch.cuda.empty_cache()
    assert rounds_of(gamma=6)


def test_memory_that_really_runs_out_in_a_capture_is_the_error_that_is_raised(
    playback: OnCuda,
) -> None:
    """Ending the capture may fail, too; its error must not hide the first."""
    held: list[torch.Tensor] = []

    def take() -> None:
        if torch.cuda.is_current_stream_capturing():
            held.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))

    with no_more_memory(), pytest.raises(torch.OutOfMemoryError):
        playback.capture(take, [])
    number = torch.zeros((), device="cuda")
    stage = playback.capture(lambda: number.add_(1.0), [number])  # pyright: ignore[reportArgumentType]
    stage()
    assert float(number) == 1.0


def test_memory_that_runs_out_for_a_new_gamma_is_one_line_and_the_pair_recovers(
    device: str,
) -> None:
    needs_cuda(device)
    known = rounds_of()
    pair = embedded(device, "bfloat16", GRAPHED)
    with no_more_memory():
        blocks = fill_reserved_memory()
        with pytest.raises(DeviceError, match="Out of memory"):
            list(speculate(pair, TEXT, replace(CHOSEN, gamma=16, max_new_tokens=1500)))
        del blocks
    assert rounds_of() == known
    assert rounds_of(gamma=16)


def fill_reserved_memory() -> list[torch.Tensor]:
    blocks, size = list[torch.Tensor](), 1 << 26
    while size >= 512:
        try:
            blocks.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            size //= 2
    return blocks


def test_garbage_collected_during_a_capture_does_not_break_it(playback: OnCuda) -> None:
    """A cycle with a graph, a pinned buffer whose copy is under way, an event and a stream."""
    numbers = torch.zeros(1 << 20, device="cuda")
    alive: list[bool] = []

    def work() -> None:
        if torch.cuda.is_current_stream_capturing():
            gc.collect()
            alive.append(left() is not None)
        numbers.add_(1.0)

    gc.collect()
    gc.disable()
    try:
        left = leave_garbage(numbers)
        stage = playback.capture(work, [numbers])
    finally:
        gc.enable()
    assert alive == [False]
    stage()
    assert float(numbers[0]) == 1.0
    assert playback.fetch(numbers[:2])() == [1.0, 1.0]


def test_a_destroyed_graph_leaves_the_workspaces_of_the_others(playback: OnCuda) -> None:
    """Torch 2.13 clears the cuBLAS workspaces of the stream on which the graph was captured."""
    rows, matrix = (
        torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        for shape in ((64, 1 << 15), (1 << 15, 64))  # deep, so that cuBLAS splits the sums
    )
    out = torch.empty(64, 64, device="cuda", dtype=torch.bfloat16)

    def multiply() -> None:
        out.copy_(rows @ matrix)

    stage, other = playback.capture(multiply, []), playback.capture(multiply, [])
    stage()
    known = out.clone()
    other()
    del other
    gc.collect()
    torch.cuda.empty_cache()
    taken = [torch.zeros(1 << 22, device="cuda") for _ in range(64)]
    for _ in range(20):
        out.zero_()
        stage()
        assert torch.equal(out, known)
    assert not any(each.any() for each in taken)


class Garbage:
    held: object


def leave_garbage(numbers: torch.Tensor) -> weakref.ref[Garbage]:
    garbage, graph, event = Garbage(), torch.cuda.CUDAGraph(), torch.cuda.Event(enable_timing=True)
    with torch.cuda.graph(graph):
        numbers.add_(0.0)
    torch.cuda._sleep(50_000_000)
    buffer = torch.empty(numbers.shape, pin_memory=True)
    buffer.copy_(numbers, non_blocking=True)
    event.record()
    garbage.held = (garbage, graph, buffer, event, torch.cuda.Stream(), numbers.clone())
    return weakref.ref(garbage)


def test_graphs_draw_no_random_numbers_of_torch(device: str) -> None:
    """The uniforms come from a buffer; a graph with a generator would need its state restored."""
    needs_cuda(device)
    torch.cuda.manual_seed(7)
    state = torch.cuda.get_rng_state()
    known = rounds_of(temperature=1.0, top_p=0.9)
    assert torch.equal(torch.cuda.get_rng_state(), state)
    torch.cuda.manual_seed(8)
    assert rounds_of(temperature=1.0, top_p=0.9) == known


def test_graphs_replayed_on_another_stream_give_the_same_rounds(device: str) -> None:
    needs_cuda(device)
    known = rounds_of()
    other: Any = torch.cuda.Stream()
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        assert rounds_of() == known
        assert rounds_of(gamma=3)  # captured now
    torch.cuda.current_stream().wait_stream(other)
    assert rounds_of() == known


def test_captures_beside_a_thread_that_uses_the_device(device: str) -> None:
    """The other thread allocates, copies and waits; it must not invalidate a capture."""
    needs_cuda(device)
    known, over, failures = rounds_of(), threading.Event(), list[Exception]()

    def use() -> None:
        try:
            while not over.is_set():
                numbers = torch.ones(1 << 18, device="cuda").add_(1.0)
                assert float(numbers.cpu()[-1]) == 2.0
                torch.cuda.synchronize()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    try:
        pair = load_pair(PairSpec(device="cuda", dtype="bfloat16", step=GRAPHED))
        found = [decisions(list(speculate(pair, TEXT, CHOSEN))) for _ in range(3)]
    finally:
        over.set()
        thread.join()
    assert failures == []
    assert found == [known] * 3


def test_values_are_read_after_their_copy_and_buffers_not_reused_before(playback: OnCuda) -> None:
    number = torch.zeros(256, device="cuda")
    reads = list[Any]()
    for _ in range(50):
        torch.cuda._sleep(2_000_000)
        number.add_(1.0)
        reads.append(playback.fetch(number))
        playback.fetch(number)  # dropped while its copy waits
    assert [set(read()) for read in reads] == [{float(each + 1)} for each in range(50)]


def test_a_run_dropped_while_its_rounds_are_queued_does_not_disturb_the_next(device: str) -> None:
    needs_cuda(device)
    pair, known = embedded(device, "bfloat16", GRAPHED), rounds_of()
    for _ in range(20):
        run = speculate(pair, TEXT, replace(CHOSEN, seed=5))
        next(run)
        del run
        assert rounds_of() == known


def test_times_of_stages_fill_the_time_of_their_rounds(device: str) -> None:
    """Events on one stream, all recorded: no stage has a negative time or another stage's."""
    needs_cuda(device)
    pair = embedded(device, "bfloat16", GRAPHED, "500M")
    list(speculate(pair, TEXT, CHOSEN))
    rounds = list(speculate(pair, TEXT, CHOSEN))
    for each in rounds:
        assert min(each.times.draft, each.times.verify, each.times.record) > 0.0
        assert each.times.other >= 0.0
    drafts = [each.times.draft for each in rounds]
    assert max(abs(one - two) for one, two in pairwise(sorted(drafts)[2:-2])) < 0.5 * drafts[-1]


def test_the_memory_of_a_deleted_pair_returns_to_the_device(device: str) -> None:
    """Also that of its graphs' pool and of its cuBLAS workspaces."""
    needs_cuda(device)

    def whole_life() -> int:
        pair = load_pair(PairSpec(device="cuda", dtype="bfloat16", step=GRAPHED, target_body="90M"))
        for gamma in range(1, 7):
            list(speculate(pair, TEXT, RunConfig(gamma=gamma, max_new_tokens=40)))
        del pair
        gc.collect()
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved()

    first, *later = (whole_life() for _ in range(4))
    print(f"reserved after each pair: {[each >> 20 for each in (first, *later)]} MiB")
    assert max(later) <= first + (8 << 20)


@pytest.mark.parametrize("whole", [True, False], ids=["finished run", "queued rounds"])
@pytest.mark.parametrize("expandable", [False, True], ids=["segments", "expandable segments"])
def test_a_process_with_live_graphs_ends_without_an_error(
    device: str, whole: bool, expandable: bool
) -> None:
    needs_cuda(device)
    settings = {"PYTORCH_ALLOC_CONF": f"expandable_segments:{expandable}"}
    ended = subprocess.run(
        [sys.executable, "-c", f"whole = {whole}\n{RUN}"],
        env=child_environment() | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert not any(each in ended.stderr for each in ("CUDA", "Traceback", "Warning")), ended.stderr
    assert ended.stdout.endswith("()\n")
