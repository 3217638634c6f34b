"""Enlarged models: the same output, and all their memory is written."""

from __future__ import annotations

import copy
import ctypes
import gc
import math
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from specviz.engine import Pair, load_pair, speculate
from specviz.engine.loading import hardware
from specviz.engine.loading.checkup import check_pair
from specviz.engine.loading.folder_source import FolderSource
from specviz.engine.model import growing
from specviz.engine.model.growing import body_info, grow, shape_of_model
from specviz.engine.model.lean import LeanStep
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.library_step import LibraryStep
from specviz.engine.model.steps import Step
from specviz.errors import ConfigError, DeviceError, PairError
from specviz.record.bodies import Shape, parameters_of, shape_of
from specviz.record.pairs import PairSpec, Progress, pairs_folder
from specviz.record.trace import RunConfig
from tests.engine.asking import load, refusal
from tests.engine.models import stir, tiny_model, write_pair

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Model


IDS = torch.arange(3, 23)
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
WIDER = Shape(width=128, feed_forward=160, layers=5)  # the tiny models are 32 wide
ROUNDED = Shape(width=64, feed_forward=96, layers=3)


def silent(_done: int, _total: int) -> None:
    pass


def as_type(model: Any, dtype: torch.dtype) -> PreTrainedModel:
    return model.to(dtype)


@torch.inference_mode()
def logits(model: Model, ids: torch.Tensor = IDS) -> torch.Tensor:
    return model(ids[None]).logits[0].to(torch.float32 if model.dtype.itemsize < 4 else model.dtype)


def apart(model: PreTrainedModel, other: PreTrainedModel) -> float:
    """The largest difference of the logits, relative to the largest logit."""
    own, others = logits(model), logits(other)
    return float((own - others).abs().max() / own.abs().max())


@pytest.fixture(scope="module")
def target() -> PreTrainedModel:
    folder = pairs_folder() / "tinystories" / "target"
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def grown_to(body: str, model: PreTrainedModel) -> PreTrainedModel:
    own = shape_of_model(model)
    assert own is not None
    return grow(model, shape_of(body, own), silent)


def test_the_shipped_target_grows_without_rounding(target: PreTrainedModel) -> None:
    """In double precision: only the order in which a product adds may differ with its width."""
    grown = grown_to("90M", target)
    assert grown.config.hidden_size == 4 * target.config.hidden_size
    exact = copy.deepcopy(target).double()
    assert apart(exact, grown.double()) < 1e-13


def test_other_widths_than_powers_of_four_round(target: PreTrainedModel) -> None:
    grown = grow(target, Shape(width=288, feed_forward=768, layers=14), silent)
    assert 0 < apart(target, grown) < 1e-5


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_keeps_its_logits(family: str, tied: bool) -> None:
    model = stir(tiny_model(family, tie_word_embeddings=tied))
    own = shape_of_model(model)
    assert own is not None
    assert own.tied == tied
    assert own.heads == 2 * own.key_heads  # two query heads share each key head
    for shape in (WIDER, ROUNDED):
        grown: Any = grow(model, shape, silent)
        assert apart(model, grown) < 1e-5
        assert shape_of_model(grown) == replace(
            own, shape=shape, heads=shape.width // 8, key_heads=shape.width // 16
        )
        assert (grown.lm_head.weight is grown.model.embed_tokens.weight) == tied
        weights = LeanWeights.take(grown)
        assert weights is not None
        _agree(LeanStep(weights, 320, 32), LibraryStep(model, 320))


def _agree(step: Step, own: Step) -> None:
    """Over a prefill, a single step, a rollback and a verification."""
    for lane in (step, own):
        lane.feed(IDS[:7], 1)
        lane.forget(2)
    for begin, end in ((5, 6), (6, 12)):
        ours, theirs = (lane.feed(IDS[begin:end], end - begin) for lane in (step, own))
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_more_heads_than_the_width_holds_are_kept() -> None:
    """As in the smaller Qwen3 models, whose heads together are wider than the stream."""
    model = stir(tiny_model("qwen3", head_dim=32))
    own = shape_of_model(model)
    assert own is not None
    assert own.head_width * own.heads == 4 * own.shape.width
    shape = shape_of("10M", own)
    grown = grow(model, Shape(width=64, feed_forward=64, layers=2), silent)
    assert grown.config.num_attention_heads == own.heads
    assert apart(model, grown) < 1e-5
    assert parameters_of(shape, own) == pytest.approx(10e6, rel=0.25)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_stays_finite(family: str, dtype: torch.dtype) -> None:
    model = as_type(stir(tiny_model(family)), dtype)
    grown = grow(model, WIDER, silent)
    assert {each.dtype for each in grown.parameters()} == {dtype}
    assert torch.isfinite(logits(grown)).all()
    assert apart(model, grown) < (0.05 if dtype == torch.bfloat16 else 0.01)


def test_new_weights_cannot_overflow_float16() -> None:
    """Even after a norm with weights as large as in real models."""
    model = as_type(tiny_model("llama"), torch.float16)
    for name, weight in model.named_parameters():
        if name.endswith("layernorm.weight"):
            weight.data.fill_(60.0)
        elif "layers" in name:
            weight.data.mul_(0.01)
    assert torch.isfinite(logits(model)).all()
    assert torch.isfinite(logits(grow(model, WIDER, silent))).all()


def test_every_value_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = torch.empty
    monkeypatch.setattr(
        growing.torch, "empty", lambda *shape, **kind: empty(*shape, **kind).fill_(math.nan)
    )
    grown = grow(tiny_model("qwen2"), WIDER, silent)
    monkeypatch.undo()
    for name, weight in grown.named_parameters():
        assert not torch.isnan(weight).any(), name
        if not any(part in name for part in ("o_proj", "down_proj", "embed_tokens", "bias")):
            assert (weight == 0).float().mean() < 1e-3, name


def test_every_page_is_written(target: PreTrainedModel) -> None:
    """Pages that were never written are not resident."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = psutil.Process().memory_info().rss
    grown = grown_to("60M", target)
    size = sum(each.nbytes for each in grown.parameters())
    assert psutil.Process().memory_info().rss - before > 0.95 * size


def test_reports_progress_and_can_be_cancelled(target: PreTrainedModel) -> None:
    reports: list[tuple[int, int]] = []

    def stop_midway(done: int, total: int) -> None:
        reports.append((done, total))
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grow(target, Shape(width=768, feed_forward=2048, layers=12), stop_midway)
    totals = {total for _, total in reports}
    assert totals == {4 * 88_099_584}
    dones = [done for done, _ in reports]
    assert dones[0] == 0
    assert dones == sorted(dones)
    assert len(dones) > 4


def test_progress_ends_at_the_total() -> None:
    reports: list[tuple[int, int]] = []
    grown = grow(tiny_model(), ROUNDED, lambda *each: reports.append(each))
    size = sum(each.nbytes for each in grown.parameters())
    assert reports == [(0, size), (size, size)]


def test_body_info() -> None:
    model = tiny_model()
    grown = grow(model, WIDER, silent)
    parameters = sum(each.numel() for each in grown.parameters())
    info = body_info("10M", parameters, grown, 5)
    assert (info.name, info.shape, info.own_parameters) == ("10M", WIDER, 5)
    assert info.parameters == parameters
    assert info.step_bytes == 4 * (parameters - 320 * 128)  # one row of the embedding is read
    tied = grow(tiny_model(tie_word_embeddings=True), WIDER, silent)
    assert body_info("10M", parameters, tied, 5).step_bytes == 4 * (parameters - 320 * 128)


# A pair with bodies


def test_a_pair_with_bodies(llama: Path) -> None:
    reports: list[Progress] = []
    pair = load(llama, target_body="11M", draft_body="10M", progress=reports.append)
    plain = load(llama)
    body, draft = pair.info.target.body, pair.info.draft and pair.info.draft.body
    assert body is not None
    assert draft is not None
    assert (body.name, draft.name) == ("11M", "10M")
    assert body.own_parameters == plain.info.target.parameters
    assert body.parameters == pair.info.target.parameters == pytest.approx(11e6, rel=0.1)
    assert pair.info.target.weights_sha256 == plain.info.target.weights_sha256
    assert pair.info.target.step == "lean"
    assert plain.info.target.body is None
    _agree(pair.target_step(32), plain.target_step(32))
    _agree(pair.draft_step(32), plain.draft_step(32))
    grown = [each for each in reports if each.activity == "growing"]
    assert grown[-1].done_bytes == grown[-1].total_bytes == 4 * draft.parameters
    assert "enlarging target" in grown[0].text


def test_a_check_counts_the_bodies(llama: Path) -> None:
    spec = PairSpec(target=f"{llama / 'target'}", draft=f"{llama / 'draft'}", target_body="20M")
    found = check_pair(spec)
    assert found.target.parameters == pytest.approx(20e6, rel=0.1)
    assert found.draft is not None
    both = found.target.parameters + found.draft.parameters
    assert found.memory_needed == 2 * 4 * both  # with copies for the kernels


def test_rejects_a_body_that_does_not_fit_before_reading_weights(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "free_memory", lambda _device: 10**9)
    monkeypatch.setattr(FolderSource, "fetch_weights", None)  # never called
    message = refusal(DeviceError, llama, target_body="llama-3.2-1b")
    assert message.startswith("A simulated target of ")
    assert "does not fit" in message
    assert "1 GB are free" in message


def test_a_family_of_another_shape_is_refused(tmp_path: Path) -> None:
    message = refusal(PairError, write_pair(tmp_path, "gpt2"), target_body="10M")
    assert "not a Llama-shaped model" in message


def test_a_body_smaller_than_the_model_is_refused(tmp_path: Path) -> None:
    pair = write_pair(tmp_path, num_hidden_layers=40)
    assert "smaller than the model" in refusal(ConfigError, pair, target_body="smollm2-135m")


def test_rejects_a_draft_body_without_a_draft(llama: Path) -> None:
    assert "--draft-body needs a draft" in refusal(PairError, llama, draft=None, draft_body="10M")


def test_cancelled_growing_frees_its_memory(llama: Path) -> None:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = psutil.Process().memory_info().rss

    def stop(progress: Progress) -> None:
        if progress.activity == "growing" and progress.done_bytes:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(llama, target_body="60M", progress=stop)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    assert psutil.Process().memory_info().rss - before < 60e6
    assert load(llama).info.target.body is None


# Texts of a pair with and without a body


def test_the_same_seed_gives_the_same_text() -> None:
    """With a body whose logits round: texts may differ only at a near tie."""
    plain = load_pair(PairSpec(threads=1))
    grown = load_pair(PairSpec(threads=1, target_body="smollm2-135m"))
    for temperature in (0.0, 0.8):
        config = RunConfig(temperature=temperature, max_new_tokens=25, seed=3, record=False)
        own, ours = (_tokens(pair, config) for pair in (plain, grown))
        together = sum(
            1 for _ in takewhile(lambda each: each[0] == each[1], zip(own, ours, strict=False))
        )
        if own != ours:
            margin = _margin(plain, own[:together])
            assert margin < 1e-3, f"they part at token {together}, by a margin of {margin}"
        assert len(own) > 20


def _tokens(pair: Pair, config: RunConfig) -> tuple[int, ...]:
    run = speculate(pair, "Once upon a time", config)
    return tuple(token for entry in run for token in entry.emitted)


def _margin(pair: Pair, emitted: tuple[int, ...]) -> float:
    """The difference of the two largest logits after these tokens."""
    ids = torch.tensor([*pair.tokenizer("Once upon a time")["input_ids"], *emitted])
    first, second = logits(pair.target, ids)[-1].topk(2).values.tolist()
    return first - second
