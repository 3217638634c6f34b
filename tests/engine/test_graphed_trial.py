"""A pair gets device lanes only if they agree with stepwise decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.engine import speculate
from specviz.engine.decoding.speculation import Speculation
from specviz.engine.graphed import trial
from specviz.engine.graphed.chain import Chain
from specviz.engine.graphed.playback import OnHost
from specviz.engine.graphed.text_state import TextState
from specviz.engine.graphed.trial import add_lanes
from specviz.engine.model.static_step import StaticStep
from specviz.errors import PairError
from specviz.record.pairs import GRAPHED
from tests.engine.asking import load
from tests.engine.models import noisy_copy, pair_of, tiny_model, write_pair
from tests.engine.playing import PROMPT, config


def reason(draft: bool = True) -> str:
    target = tiny_model("llama")
    pair = pair_of(target, noisy_copy(target, 0.05) if draft else None, step="lean")
    found = add_lanes(pair)
    assert (pair.lanes is None) == bool(found)
    assert (pair.info.target.step == GRAPHED) == (not found)
    return found


@pytest.mark.parametrize("draft", [True, False])
def test_a_lean_pair_gets_lanes(draft: bool) -> None:
    assert reason(draft) == ""


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.thorough)]
)
def test_half_precision_gets_lanes_despite_near_ties(dtype: torch.dtype) -> None:
    target: Any = tiny_model("llama", sigma=0.2)
    draft: Any = noisy_copy(target, 0.05)
    assert add_lanes(pair_of(target.to(dtype), draft.to(dtype), step="lean")) == ""


def off_by_one(self: StaticStep, ids: torch.Tensor, first: torch.Tensor, *rest: Any) -> Any:
    return FEED(self, ids, first + 1, *rest)


def never_back(self: TextState, ids: torch.Tensor, kept: torch.Tensor) -> None:
    APPEND(self, ids, torch.full_like(kept, len(ids)))


def other_tape(self: Chain, uniforms: Any, forced: Any) -> None:
    TAPE(self, 1.0 - 2**-24 - uniforms, forced)


def likeliest_of_nothing(self: Chain, probs: torch.Tensor) -> torch.Tensor:
    return probs.roll(1, -1)


FEED, APPEND, TAPE = StaticStep.feed_at, TextState.append, Chain.write_tape


@pytest.mark.parametrize(
    ("place", "name", "fault", "phrase"),
    [
        (StaticStep, "feed_at", off_by_one, "with a static cache"),
        (TextState, "append", never_back, "rounds"),
        (Chain, "write_tape", other_tape, "rounds"),
        (Chain, "_with_forced", likeliest_of_nothing, "rounds"),
    ],
)
def test_detects_a_fault(
    monkeypatch: pytest.MonkeyPatch, place: type, name: str, fault: Any, phrase: str
) -> None:
    monkeypatch.setattr(place, name, fault)
    assert phrase in reason()


def test_detects_a_fault_in_the_target_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextState, "ending", lambda self, count: self.tokens[:count])
    assert "tokens" in reason(draft=False)


@pytest.mark.parametrize(
    ("error", "phrase"),
    [
        (RuntimeError("operation not permitted"), "RuntimeError"),
        (RuntimeError("CUDA error: out of memory"), "memory ran out"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), "memory ran out"),
        (RuntimeError("Triton Error [CUDA]: out of memory"), "memory ran out"),
        (MemoryError(), "memory ran out"),
    ],
)
def test_failed_captures_fall_back_to_steps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, phrase: str
) -> None:
    def refuse(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(OnHost, "capture", refuse)
    assert phrase in reason()
    folder = write_pair(tmp_path, num_hidden_layers=1)
    with pytest.raises(PairError, match="does not support --step graphed") as refused:
        load(folder, step=GRAPHED)
    assert "--step lean" in refused.value.remedy


def test_a_pair_on_a_gpu_loads_without_lanes_with_a_notice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The CPU pretends to be a GPU."""
    from specviz.engine.loading import loading

    monkeypatch.setattr(loading, "add_lanes", lambda _: "its stages could not be captured")
    monkeypatch.setattr(loading, "has_graphs", lambda _: True)
    pair = load(write_pair(tmp_path, num_hidden_layers=1))
    assert pair.lanes is None
    assert pair.info.target.step == "lean"
    assert pair.notices[-1].startswith(
        "The host runs rounds step by step, without CUDA graphs: its stages"
    )
    assert isinstance(speculate(pair, PROMPT, config()), Speculation)


def test_graphed_steps_on_a_cpu_run_without_capture(tmp_path: Path) -> None:
    pair = load(write_pair(tmp_path, num_hidden_layers=1), step=GRAPHED)
    assert [each and each.step for each in (pair.info.target, pair.info.draft)] == [GRAPHED] * 2
    assert not pair.notices


def test_families_without_a_lean_step_get_no_lanes(tmp_path: Path) -> None:
    target = tiny_model("gpt2")
    pair = pair_of(target, None, step="library")
    assert "gpt2" in add_lanes(pair)


def test_the_trial_fits_a_short_context() -> None:
    target = tiny_model("llama")
    pair = pair_of(target, noisy_copy(target), step="lean", max_context=8)
    assert trial.add_lanes(pair) == ""
