"""Greedy decoding matches ``generate`` in every family with recurrent layers that can roll back."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from specviz.engine import Pair, decode_plainly, speculate
from specviz.engine.decoding.costs import measure_step_costs
from specviz.engine.loading.rollback import check_rollback, refuse_without_rollback
from specviz.engine.model.recurrent_layers import ONE_TOKEN_AT_A_TIME
from specviz.engine.model.recurrent_step import RecurrentStep
from specviz.errors import PairError
from specviz.record.trace import RunConfig
from tests.engine.asking import load
from tests.engine.models import (
    VOCABULARY,
    build,
    generated,
    noisy_copy,
    pair_of,
    small_tokenizer,
    wide,
    write_model,
)
from tests.engine.recurrent_models import RECURRENT, recurrent_model

LENGTH = 30
PROMPT = tuple(range(40, 53))
LOADED = "qwen3_5_text"
OFTEN = ("qwen3_next", "qwen3_5_text", "mamba2", "lfm2", "kimi_linear")  # layers that differ
DRAFTERS = ("model", "prompt-lookup")
WIDER = {"zamba": 0.6, "zaya": 1.0, "inkling_text": 1.0, "inkling2_text": 0.6}


@cache
def family_pair(family: str) -> Pair:
    target = recurrent_model(family, sigma=WIDER.get(family, 0.3), seed=2)
    return pair_of(target, noisy_copy(target, 0.05))


@cache
def written(family: str) -> tuple[int, ...]:
    return generated(family_pair(family).target, PROMPT, LENGTH)


def greedy(drafter: str, gamma: int = 4) -> RunConfig:
    return RunConfig(
        drafter=drafter, gamma=gamma, temperature=0.0, max_new_tokens=LENGTH, ignore_eos=True,
        record=False,
    )  # fmt: skip


def often(family: str) -> Any:
    return () if family in OFTEN else pytest.mark.thorough


@pytest.mark.parametrize(
    ("family", "drafter"),
    [
        pytest.param(family, drafter, marks=often(family))
        for family in RECURRENT
        for drafter in DRAFTERS
    ],
)
def test_matches_generate(family: str, drafter: str) -> None:
    pair = family_pair(family)
    run = speculate(pair, PROMPT, greedy(drafter))
    rounds = list(run)
    assert run.emitted == written(family)
    tested = sum(each.num_tested for each in rounds)
    assert tested > 0
    if drafter == "model":
        assert 0 < sum(each.num_accepted for each in rounds) < tested


@pytest.mark.parametrize("family", ["qwen3_next", "mamba2"])
def test_plain_decoding_matches_generate(family: str) -> None:
    pair = family_pair(family)
    assert tuple(decode_plainly(pair, PROMPT, greedy("model"))) == written(family)


def test_step_costs_are_measured() -> None:
    costs = measure_step_costs(
        family_pair(LOADED), greedy("model"), contexts=(5,), repeats=1, seconds=4.0
    )
    assert costs is not None
    assert all(seconds > 0 for row in (*costs.target, *costs.draft) for seconds in row)


def write_folders(folder: Path) -> Path:
    target = family_pair(LOADED).target
    assert isinstance(target, hf.PreTrainedModel)
    write_model(folder / "target", target, small_tokenizer())
    write_model(folder / "draft", noisy_copy(target), small_tokenizer())
    return folder


def test_a_loaded_pair_has_such_steps(tmp_path: Path) -> None:
    pair = load(write_folders(tmp_path))
    assert isinstance(pair.target_step(8), RecurrentStep)
    assert isinstance(pair.draft_step(8), RecurrentStep)
    assert pair.info.target.step == "library"
    run = speculate(pair, PROMPT, greedy("model"))
    list(run)
    assert run.emitted == written(LOADED)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"branching": (2, 2)}, "cannot draft or verify trees"),
        ({"drafter": "early-exit:1"}, "do not support early exit"),
    ],
)
def test_what_such_steps_cannot_do_is_refused(settings: dict[str, Any], words: str) -> None:
    config = RunConfig(temperature=1.0, max_new_tokens=5, **settings)
    with pytest.raises(PairError, match=words) as error:
        speculate(family_pair(LOADED), PROMPT, config)
    assert "\n" not in str(error.value)


def test_the_check_finds_a_snapshot_that_is_not_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    target = family_pair(LOADED).target
    check_rollback(target, "tiny", VOCABULARY)
    restore = RecurrentStep._restore

    def stale(self: RecurrentStep, begun: Any) -> None:
        begun.snapshot = self._snapshot()
        restore(self, begun)

    monkeypatch.setattr(RecurrentStep, "_restore", stale)
    with pytest.raises(PairError, match="different logits after a rollback than in a single pass"):
        check_rollback(target, "tiny", VOCABULARY)


SMALL: dict[str, dict[str, Any]] = {
    "mamba": {"state_size": 8},
    "falcon_mamba": {"state_size": 8},
    "jamba": {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "mamba_d_state": 8,
        "num_experts": 2,
    },
    "recurrent_gemma": {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "lru_width": 32,
        "block_types": ["recurrent", "attention"],
    },
}


@pytest.mark.parametrize("family", ONE_TOKEN_AT_A_TIME)
def test_families_that_read_one_token_at_a_time_are_refused(family: str) -> None:
    """If this fails with a later release of transformers, the family may be supported."""
    config = hf.AutoConfig.for_model(
        family, vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, **SMALL[family]
    )
    model = wide(build(config))
    with pytest.raises(PairError, match=f"{family}: such models read one token at a time"):
        refuse_without_rollback(model, "tiny")
    with pytest.raises(PairError, match=f"{family}: such models read one token at a time"):
        check_rollback(model, "tiny", VOCABULARY)


@pytest.mark.parametrize("family", ["rwkv", "xlstm"])
def test_families_with_a_state_outside_the_cache_are_refused(family: str) -> None:
    config = hf.AutoConfig.for_model(family, num_hidden_layers=1, hidden_size=32)
    with torch.device("meta"):
        model = hf.AutoModelForCausalLM.from_config(config)
    with pytest.raises(PairError, match=f"{family}: such models cannot roll their cache back"):
        refuse_without_rollback(model, "tiny")
