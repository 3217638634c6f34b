"""The model with static caches: the lean step's logits, without synchronisation."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from specviz.engine.graphed.chain import Chain, PairMemory
from specviz.engine.graphed.playback import OnHost
from specviz.engine.graphed.target_decoder import SingleStep
from specviz.engine.graphed.text_state import TextState
from specviz.engine.model.growing import skeleton_of
from specviz.engine.model.lean import LeanStep
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.static_step import StaticStep
from specviz.engine.model.text import make_token_table
from tests.engine.models import VOCABULARY, small_tokenizer, stir, tiny_config, tiny_model
from tests.engine.playing import config
from tests.engine.test_lean import SHAPES

IDS = torch.arange(3, 27) * 11 % VOCABULARY


def weights_of(shape: str) -> LeanWeights:
    family, changes = SHAPES[shape]
    weights = LeanWeights.take(stir(tiny_model(family, sigma=0.2, **changes)))
    assert weights is not None
    return weights


def fed(model: StaticStep, begin: int, end: int, seen: int) -> torch.Tensor:
    return model.feed_at(IDS[begin:end], torch.tensor(begin), seen, end - begin)


@pytest.mark.parametrize("shape", SHAPES)
@torch.inference_mode()
def test_static_logits_match_the_lean_step(shape: str) -> None:
    weights = weights_of(shape)
    step, static = LeanStep(weights, VOCABULARY, 32), StaticStep(weights, VOCABULARY, 32)
    step.feed(IDS[:9], 0)
    static.prefill(IDS[:9], 0)
    for begin, end, seen in ((9, 10, 16), (10, 15, 16), (15, 17, 32)):
        known = step.feed(IDS[begin:end], end - begin)
        torch.testing.assert_close(fed(static, begin, end, seen), known, rtol=1e-4, atol=1e-4)
    step.forget(5)
    again = fed(static, 12, 14, 32)  # rollback is a length
    torch.testing.assert_close(again, step.feed(IDS[12:14], 2), rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_rows_outside_the_text_do_not_matter() -> None:
    weights = weights_of("mistral")
    clean, full = (StaticStep(weights, VOCABULARY, 32) for _ in range(2))
    full.prefill(IDS, 0)
    for model in (clean, full):
        model.prefill(IDS[:6], 0)
    assert torch.equal(fed(clean, 6, 8, 32), fed(full, 6, 8, 32))
    first = LeanStep(weights, VOCABULARY, 4).feed(IDS[:1], 1)
    model = StaticStep(weights, VOCABULARY, 32)
    two = model.feed_at(torch.stack((IDS[20], IDS[0])), torch.tensor(-1), 16, 1)
    torch.testing.assert_close(two, first, rtol=1e-4, atol=1e-4)
    after = fed(model, 1, 2, 16)
    step = LeanStep(weights, VOCABULARY, 4)
    step.feed(IDS[:1], 0)
    torch.testing.assert_close(after, step.feed(IDS[1:2], 1), rtol=1e-4, atol=1e-4)


def stages_without_numbers(
    settings: dict[str, Any], dtype: torch.dtype
) -> tuple[Chain, SingleStep]:
    """Run stages on the meta device, where every synchronisation fails."""
    model: Any = skeleton_of(tiny_config("qwen3", VOCABULARY))
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    weights = LeanWeights.take(model)
    assert weights is not None
    table = make_token_table(small_tokenizer(), VOCABULARY)
    state = TextState(64, torch.device("meta"))
    target, draft = (StaticStep(weights, VOCABULARY, 64) for _ in range(2))
    memory = PairMemory(target, draft, state)
    chosen = config(gamma=3, **settings)
    chain = Chain(memory, chosen, table, OnHost(), forced=chosen.greedy)
    return chain, SingleStep(memory.target, state, chosen, OnHost())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.0},
        {"temperature": 1.0},
        {"temperature": 0.7, "top_k": 20, "top_p": 0.9},
        {"rule": "over-accept", "epsilon": 0.1},
        {"rule": "typical", "epsilon": 0.09},
    ],
    ids=str,
)
def test_no_stage_synchronises(settings: dict[str, Any], dtype: torch.dtype) -> None:
    chain, single = stages_without_numbers(settings, dtype)
    for play in (chain.draft(32), chain.verify(32), chain.record(), single.stage(32)):
        play()
    places = (chain.verdicts, chain.insights, single.drawn)
    assert [each.device.type for each in places] == ["meta"] * 3
    assert chain.verdicts.shape == (4 * 3 + 4,)


def test_detects_a_synchronisation(monkeypatch: pytest.MonkeyPatch) -> None:
    chain, _ = stages_without_numbers({"temperature": 0.0}, torch.float32)
    keep = TextState.append
    monkeypatch.setattr(
        TextState, "append", lambda self, ids, kept: keep(self, ids[: int(kept)], kept)
    )
    with pytest.raises(RuntimeError):
        chain.verify(32)()
