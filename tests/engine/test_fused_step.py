"""The Triton kernels on a CPU, run by Triton's interpreter, which has no half precision."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specviz.engine.graphed.trial import add_lanes
from specviz.engine.model.fused_step import FusedStep, can_fuse, has_triton
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.static_step import StaticStep
from specviz.record.pairs import GRAPHED
from tests.engine.compiled_kernels import VARIANTS
from tests.engine.fused_differences import PASSES, ROWS, VOCABULARY
from tests.engine.models import noisy_copy, pair_of, stir, tiny_model

SIZES = {"hidden_size": 48, "intermediate_size": 40, "head_dim": 16, "num_attention_heads": 4}
WINDOWS = "grouped heads with windows"
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "biases": ("llama", {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4}),
    "norms of heads": ("qwen3", {"num_key_value_heads": 1, "num_hidden_layers": 1}),
    WINDOWS: (
        "mistral",
        {"num_key_value_heads": 2, "num_hidden_layers": 1, "sliding_window": 90},
    ),
}


def weights_of(shape: str) -> LeanWeights:
    family, changes = SHAPES[shape]
    model = tiny_model(family, vocabulary=VOCABULARY, sigma=0.2, **(SIZES | changes))
    weights = LeanWeights.take(stir(model))
    assert weights is not None
    return weights


def printed(module: str, *arguments: str, **variables: str) -> Any:
    """Return what a module prints, as JSON; Triton reads its variables when it is imported."""
    if not has_triton():
        pytest.skip("needs Triton, which exists for Linux only")
    ran = subprocess.run(
        [sys.executable, "-m", f"tests.engine.{module}", *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


@pytest.mark.parametrize(
    "shape",
    [
        each if each == WINDOWS else pytest.param(each, marks=pytest.mark.thorough)
        for each in SHAPES
    ],
)
def test_kernels_give_the_logits_and_caches_of_the_static_step(shape: str, tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(pickle.dumps(weights_of(shape)))
    found = printed("fused_differences", str(weights), TRITON_INTERPRET="1")
    assert {place for place, _ in found} == {f"{begin} {count}" for begin, count in PASSES}
    assert max(value for _, value in found) < 1e-4, found


@pytest.mark.thorough
def test_kernels_compile_for_a_gpu_and_wait_for_each_other(tmp_path: Path) -> None:
    """The interpreter ignores how kernels are chained."""
    found = printed("compiled_kernels", TRITON_CACHE_DIR=str(tmp_path))
    assert found.keys() == VARIANTS.keys()
    for label, code in found.items():
        units = code.pop("matrix units")
        assert set(code.values()) == {1}, (label, code)
        assert bool(units) == (label.endswith("six rows")), label


@torch.inference_mode()
def test_a_pass_of_many_tokens_is_that_of_the_static_step() -> None:
    weights, ids = weights_of(WINDOWS), torch.arange(40) * 3 % VOCABULARY
    fused, static = (kind(weights, VOCABULARY, ROWS) for kind in (FusedStep, StaticStep))
    ours, known = (step.feed_at(ids, torch.tensor(0), 256, 3) for step in (fused, static))
    assert torch.equal(ours, known)


def test_weights_on_a_cpu_have_no_fused_step() -> None:
    weights = weights_of(WINDOWS)
    assert not can_fuse(weights)
    assert weights.with_fused_kernels() is None


def test_kernels_run_on_the_gpu_of_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton launches on the current GPU, which may be another one."""
    step, current = FusedStep(weights_of(WINDOWS), VOCABULARY, ROWS), list[torch.device]()

    def switch(device: torch.device) -> AbstractContextManager[None]:
        current.append(device)
        return nullcontext()

    monkeypatch.setattr(FusedStep, "_feed_few", lambda *_: torch.zeros(1))
    monkeypatch.setattr(torch.cuda, "device", switch)
    step.feed_at(torch.arange(2), torch.tensor(0), 256, 1)
    assert current == []
    step._stream = SimpleNamespace(device=torch.device("cuda", 1), shape=(64, 8))  # pyright: ignore[reportAttributeAccessIssue]
    step.feed_at(torch.arange(2), torch.tensor(0), 256, 1)
    assert current == [torch.device("cuda", 1)]


class _NoCompilerError(Exception):
    """Like Triton's own errors, which are no RuntimeError."""


def _wrong(self: FusedStep, *given: Any) -> torch.Tensor:
    return StaticStep.feed_at(self, *given).roll(1, -1)


def _failing(self: FusedStep, *given: Any) -> torch.Tensor:
    raise _NoCompilerError


def _right(self: FusedStep, *given: Any) -> torch.Tensor:
    return StaticStep.feed_at(self, *given)


@pytest.mark.parametrize(
    ("feed", "notice"),
    [
        (_right, ""),
        (_wrong, "with a static cache differ from those without"),
        (_failing, "the stages could not be captured (_NoCompilerError)"),
    ],
    ids=["right", "wrong", "failing"],
)
def test_kernels_that_fail_the_trial_are_not_used(
    feed: Any, notice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.engine.model.lean_weights.can_fuse", lambda weights: True)
    monkeypatch.setattr(FusedStep, "feed_at", feed)
    target = tiny_model("llama")
    pair = pair_of(target, noisy_copy(target, 0.05), step="lean")
    assert add_lanes(pair) == ""
    assert pair.info.target.step == GRAPHED
    lanes: Any = pair.lanes
    assert [each.fused for each in lanes.weights] == [not notice] * 2
    assert len(pair.notices) == bool(notice)
    assert notice in "".join(pair.notices)
