"""Runs that share their passes write the texts that they write alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from specviz.engine import decode_plainly, speculate
from specviz.engine.decoding.batched_run import BatchedPlainRun, BatchedSpeculation
from specviz.engine.model import step_batch
from specviz.engine.model.feeds import Feed
from specviz.engine.model.lean import LeanStep
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.packed_weights import quantise
from specviz.engine.model.pair import Pair
from specviz.engine.model.step_batch import StepBatch
from specviz.errors import ConfigError, PairError
from specviz.record.trace import RunConfig
from tests.engine.models import VOCABULARY, noisy_copy, pair_of, stir, tiny_model

PROMPTS: list[Any] = [
    list(range(40 + number, 45 + 2 * number)) for number in range(8)
]  # of eight lengths
SEEDS = range(8)
WINDOWS = {
    "use_sliding_window": True,
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention"],
}


@pytest.fixture(scope="module")
def pair() -> Pair:
    target = tiny_model("llama", sigma=0.2)
    return pair_of(target, noisy_copy(target, 0.04), step="lean")


def config(temperature: float, **settings: Any) -> RunConfig:
    given = {"gamma": 4, "max_new_tokens": 24, "temperature": temperature, "record": False}
    return RunConfig(**given | settings)


def written_alone(pair: Pair, settings: RunConfig) -> list[tuple[int, ...]]:
    texts = list[tuple[int, ...]]()
    for prompt, seed in zip(PROMPTS, SEEDS, strict=True):
        run = speculate(pair, prompt, replace(settings, seed=seed))
        list(run)
        texts.append(run.emitted)
    return texts


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_every_text_equals_that_of_its_single_run(
    pair: Pair, temperature: float, padded: bool
) -> None:
    settings = config(temperature)
    batch = BatchedSpeculation(pair, PROMPTS, settings, seeds=SEEDS, padded=padded)
    rounds = list(batch)
    texts = [run.emitted for run in batch.runs]
    assert texts == written_alone(pair, settings)
    assert len({len(text) for text in texts}) > 1, "some texts should end early"
    accepted = [{entry.num_accepted for entry in each if entry} for each in rounds]
    assert any(len(each) > 2 for each in accepted), "the runs should accept different numbers"


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_plain_texts_equal_those_of_single_runs(pair: Pair, temperature: float) -> None:
    settings = config(temperature)
    batch = BatchedPlainRun(pair, PROMPTS, settings, seeds=SEEDS)
    list(batch)
    for run, prompt, seed in zip(batch.runs, PROMPTS, SEEDS, strict=True):
        assert run.emitted == tuple(decode_plainly(pair, prompt, replace(settings, seed=seed)))


def test_rounds_equal_those_of_a_single_run_in_every_figure(pair: Pair) -> None:
    settings = config(0.7, seed=3)
    batch = BatchedSpeculation(pair, PROMPTS, settings)
    together = [entry for (_, _, _, entry, *_) in batch if entry is not None]
    alone = list(speculate(pair, PROMPTS[3], settings))
    assert len(together) == len(alone)
    for one, other in zip(together, alone, strict=True):
        assert replace(one, times=other.times) == other


def test_lookup_drafters_verify_together(pair: Pair) -> None:
    settings = config(0.0, drafter="prompt-lookup")
    batch = BatchedSpeculation(pair, PROMPTS, settings, seeds=SEEDS)
    list(batch)
    assert [run.emitted for run in batch.runs] == written_alone(pair, settings)


def ids(count: int, seed: int) -> torch.Tensor:
    return torch.randint(VOCABULARY, (count,), generator=torch.Generator().manual_seed(seed))


def fed_together_and_alone(
    weights: LeanWeights, *, padded: bool = False
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The logits of three sequences of different lengths, over passes of ragged rows."""
    batch = StepBatch(weights, VOCABULARY, 100, 4, padded=padded)
    alone = [LeanStep(weights, VOCABULARY, 100) for _ in range(3)]
    together, singles = list[torch.Tensor](), list[torch.Tensor]()
    for index, length in enumerate((3, 20, 41)):
        prompt = ids(length, index)
        batch.steps[index].feed(prompt, 0)
        alone[index].feed(prompt, 0)
    for number, counts in enumerate(((6, 1, 3), (17, 9, 0), (1, 1, 1), (0, 2, 6))):
        chosen = [index for index, count in enumerate(counts) if count]
        tokens = {index: ids(counts[index], 10 * number + index) for index in chosen}
        together += batch.feed(
            [
                Feed(
                    step=batch.steps[index], token_ids=tokens[index], num_logits=len(tokens[index])
                )
                for index in chosen
            ]
        )
        singles += [alone[index].feed(tokens[index], len(tokens[index])) for index in chosen]
        for step in (*(batch.steps[index] for index in chosen), *(alone[i] for i in chosen)):
            step.forget(1 if number else 2 if step.length > 20 else 0)
    return together, singles


def weights_of(family: str, changes: dict[str, Any]) -> LeanWeights:
    weights = LeanWeights.take(stir(tiny_model(family, sigma=0.2, **changes)))
    assert weights is not None
    return weights


@pytest.mark.parametrize(
    ("family", "changes"),
    [("llama", {}), ("qwen2", WINDOWS), ("qwen3", {"num_key_value_heads": 1})],
)
def test_logits_of_a_shared_pass_have_the_bits_of_a_single_one(
    family: str, changes: dict[str, Any]
) -> None:
    weights = weights_of(family, changes)
    for padded in (False, True):
        for one, other in zip(*fed_together_and_alone(weights, padded=padded), strict=True):
            assert torch.equal(one, other)


def test_in_torch_the_logits_are_equal_up_to_rounding() -> None:
    weights = replace(weights_of("qwen2", WINDOWS), compiled=None)
    for one, other in zip(*fed_together_and_alone(weights), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_has_the_bits_of_a_single_pass(dtype: torch.dtype) -> None:
    model: Any = tiny_model("llama", sigma=0.2)
    weights = LeanWeights.take(model.to(dtype))
    assert weights is not None
    if weights.compiled is None:
        pytest.skip("this processor has no kernels for the dtype")
    for one, other in zip(*fed_together_and_alone(weights), strict=True):
        assert torch.equal(one, other)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1"])
def test_quantised_weights_have_the_bits_of_a_single_pass(kind: str) -> None:
    model: Any = tiny_model("llama", sigma=0.2).requires_grad_(False)
    quantise(model, kind, lambda *_: None)
    weights = LeanWeights.take(model)
    assert weights is not None
    for one, other in zip(*fed_together_and_alone(weights), strict=True):
        assert torch.equal(one, other)


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_not_change_the_bits(threads: int) -> None:
    torch.set_num_threads(threads)
    try:
        for one, other in zip(*fed_together_and_alone(weights_of("llama", {})), strict=True):
            assert torch.equal(one, other)
    finally:
        torch.set_num_threads(1)


class CountedRows:
    """Counts the rows of each pass of the compiled step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = list[list[int]]()
        feed = step_batch.CompiledStep.feed_rows

        def counted(step: Any, token_ids: torch.Tensor, rows: Sequence[Any], *more: Any) -> Any:
            self.rows.append([each.count for each in rows])
            return feed(step, token_ids, rows, *more)

        monkeypatch.setattr(step_batch.CompiledStep, "feed_rows", counted)


def test_padded_passes_have_the_same_rows_for_all(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = CountedRows(monkeypatch)
    list(BatchedSpeculation(pair, PROMPTS, config(0.7), seeds=SEEDS, padded=True))
    assert all(len(rows) == 8 and len(set(rows)) == 1 for rows in counted.rows)


def test_compact_passes_have_no_rows_of_ended_texts(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = CountedRows(monkeypatch)
    rounds = list(BatchedSpeculation(pair, PROMPTS, config(0.7), seeds=SEEDS))
    going = [sum(entry is not None for entry in each) for each in rounds]
    assert going[-1] < 8
    verified = [rows for rows in counted.rows if max(rows) > 2]
    assert {len(rows) for rows in verified} <= set(going)
    assert {1, 2} <= {count for rows in counted.rows for count in rows}, "first steps are ragged"


def test_one_round_makes_one_target_pass(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CountedRows(monkeypatch)
    batch = BatchedSpeculation(pair, PROMPTS, config(0.0), seeds=SEEDS)
    next(batch)
    assert len(counted.rows) == 5  # four of the draft
    assert counted.rows[-1] == [5] * 8


def test_a_failed_pass_ends_all_runs(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = BatchedSpeculation(pair, PROMPTS, config(0.0), seeds=SEEDS)
    next(batch)

    def fail(*_: Any) -> Any:
        raise RuntimeError("in the pass")

    monkeypatch.setattr(step_batch.CompiledStep, "feed_rows", fail)
    with pytest.raises(RuntimeError, match="in the pass"):
        next(batch)
    assert all(run.done for run in batch.runs)
    assert next(batch, None) is None


def test_what_a_batch_refuses(pair: Pair) -> None:
    with pytest.raises(ConfigError, match="cannot draft"):
        BatchedSpeculation(pair, PROMPTS, config(0.0, drafter="early-exit:1"))
    with pytest.raises(ConfigError, match="no prompts"):
        BatchedSpeculation(pair, [], config(0.0))
    target = tiny_model("gpt2")
    other = pair_of(target, noisy_copy(target))
    with pytest.raises(PairError, match="lean step"):
        BatchedPlainRun(other, PROMPTS, config(0.0))
