"""A pair that is loaded while the kernels are compiled: torch first, the kernels later."""

from __future__ import annotations

import subprocess
import time
from threading import Timer

import pytest
import torch

from specviz.engine import add_kernels, load_pair, speculate
from specviz.engine.decoding import recording
from specviz.engine.loading import compatibility, hardware
from specviz.engine.loading.opening import no_progress
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.pair import Pair
from specviz.kernels import readiness
from specviz.measure.loaded_pairs import LoadedPairs
from specviz.measure.step_costs import costs_key
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig

SPEC = PairSpec(device="cpu", threads=1)
GREEDY = RunConfig(temperature=0.0, max_new_tokens=24)


def uses_kernels(pair: Pair) -> bool:
    """Return whether both models' steps use the kernels; assert that neither or both do."""
    weights = (pair.target_weights, pair.draft_weights)
    used = {each.compiled is not None for each in weights if isinstance(each, LeanWeights)}
    assert len(used) == 1
    return used.pop()


def text_of(pair: Pair) -> str:
    run = speculate(pair, "Once upon a time", GREEDY)
    list(run)
    return run.text


def test_a_pair_runs_through_torch_until_the_kernels_are_compiled(
    compiling: subprocess.Popen[bytes],
) -> None:
    pair = load_pair(SPEC, before_kernels=True)
    assert pair.lacks_kernels
    assert not uses_kernels(pair)
    assert "compiled code" in " ".join(pair.notices)
    assert not pair.environment.has_kernels
    key, text = costs_key(pair, GREEDY), text_of(pair)
    compiling.terminate()
    add_kernels(pair, SPEC)
    assert not pair.lacks_kernels
    assert uses_kernels(pair)
    whole = load_pair(SPEC)
    assert (pair.notices, pair.environment) == (whole.notices, whole.environment)
    assert costs_key(pair, GREEDY) == costs_key(whole, GREEDY) != key
    assert text == text_of(pair) == text_of(whole)
    ids = torch.arange(5, 15)
    for one, other in ((pair, whole), (whole, pair)):
        assert one.target_step(16).feed(ids, 3).equal(other.target_step(16).feed(ids, 3))


def test_a_pair_whose_logits_the_kernels_change_stays_on_torch(
    compiling: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = load_pair(SPEC, before_kernels=True)
    compiling.terminate()
    agrees = iter([True, False])
    monkeypatch.setattr(compatibility, "_agrees", lambda *_: next(agrees))
    add_kernels(pair, SPEC)
    assert not pair.lacks_kernels  # it does not try again
    assert not uses_kernels(pair)
    assert not pair.environment.has_kernels
    assert "different logits" in " ".join(pair.notices)


def test_records_and_bandwidth_of_the_compilation_are_not_kept(
    compiling: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = iter([1e9, 2e9])
    monkeypatch.setattr(hardware, "measure_bandwidth", lambda _device: next(measured))
    hardware.forget_bandwidth()
    pair = load_pair(SPEC, before_kernels=True)
    assert hardware.read_bandwidth(pair.device) == 1e9
    run = speculate(pair, "Once upon a time", GREEDY)
    compiling.terminate()
    compiling.wait()
    monkeypatch.setattr(recording, "survey_ready", lambda: pytest.fail("a record used the kernels"))
    list(run)
    add_kernels(pair, SPEC)
    assert hardware.read_bandwidth(pair.device) == 2e9
    hardware.forget_bandwidth()


@pytest.mark.parametrize(
    "spec",
    [
        PairSpec(device="cpu", threads=1, dtype="bfloat16"),
        PairSpec(device="cpu", threads=1, target_weights="q8_0"),
    ],
    ids=["another dtype", "quantised"],
)
def test_kernels_that_the_child_does_not_compile_are_awaited(
    spec: PairSpec, compiling: subprocess.Popen[bytes]
) -> None:
    ending = Timer(0.3, compiling.terminate)
    ending.start()
    assert not load_pair(spec, before_kernels=True).lacks_kernels
    ending.join()


def test_a_request_that_does_not_accept_torch_waits(compiling: subprocess.Popen[bytes]) -> None:
    pairs = LoadedPairs()
    pair = pairs.load(SPEC, no_progress, before_kernels=True)
    assert pairs.load(SPEC, no_progress, before_kernels=True) is pair
    assert pair.lacks_kernels
    readiness._work.cache_clear()
    ending = Timer(0.3, compiling.terminate)
    ending.start()
    began = time.monotonic()
    assert pairs.load(SPEC, no_progress) is pair
    assert time.monotonic() - began >= 0.3
    assert uses_kernels(pair)
    ending.join()


def test_the_next_request_uses_the_kernels_as_soon_as_they_are_compiled(
    compiling: subprocess.Popen[bytes],
) -> None:
    pairs = LoadedPairs()
    pair = pairs.load(SPEC, no_progress, before_kernels=True)
    compiling.terminate()
    compiling.wait()
    assert pairs.load(SPEC, no_progress, before_kernels=True) is pair
    assert uses_kernels(pair)
