"""The record: largest values, entropies, residuals, and temperature 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from specviz.engine import speculate
from specviz.engine.decoding import recording, speculation
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.recording import Deferred, Recorder, top_of
from specviz.engine.decoding.sampling import Sampler, one_hot
from specviz.engine.decoding.speculation import Speculation
from specviz.engine.decoding.verify import Lossless
from specviz.engine.model.text import TokenTable
from specviz.record.trace import TOP_ALTERNATIVES, Alternatives, Insight, Round, RunConfig
from specviz.store import trace_from_json, trace_to_json
from tests.engine import oracle
from tests.engine.models import noisy_copy, pair_of, tiny_model
from tests.engine.playing import PROMPT, config, llama_pair, play, timeless
from tests.engine.spies import watch
from tests.traces import make_trace


@pytest.mark.parametrize("size", [1, 7, 10, 320, 2_559, 2_560, 2_623, 32_000, 50_257, 128_256])
def test_top_of_is_topk(size: int) -> None:
    rows = torch.rand(9, size, generator=torch.Generator().manual_seed(size))
    rows[0] = torch.linspace(0, 1, size)  # the largest together, in the tail
    rows[1] = torch.linspace(1, 0, size)  # the largest together, side by side
    rows[2, :: max(1, size // 32)] += 1.0  # the largest in one column of a grid
    values, where = top_of(rows, TOP_ALTERNATIVES)
    expected = rows.topk(min(TOP_ALTERNATIVES, size), dim=-1).values
    assert torch.equal(values, expected)
    assert torch.equal(rows.gather(-1, where), values)
    assert all(len(set(row)) == len(row) for row in where.tolist())


def test_top_of_sparse_rows() -> None:
    rows = torch.zeros(2, 128_256)
    rows[0, [5, 64_000, 128_255]] = torch.tensor([0.2, 0.5, 0.3])
    rows[1, -1] = 1.0
    values, where = top_of(rows, TOP_ALTERNATIVES)
    assert where[0, :3].tolist() == [64_000, 128_255, 5]
    assert values[1].tolist() == [1.0] + [0.0] * 9
    assert int(where[1, 0]) == 128_255


SAMPLINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 1.0},
    {"temperature": 0.05},
    {"temperature": 0.7, "top_k": 5},
    {"temperature": 1.3, "top_p": 0.6},
    {"temperature": 1.0, "top_k": 1},
    {"temperature": 0.0},
)


@pytest.mark.parametrize("kernels", [True, False], ids=["kernel", "torch"])
@pytest.mark.parametrize("size", [9, 12, 4_000, 40_001])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_an_insight_describes_both_distributions_and_the_residual(
    monkeypatch: pytest.MonkeyPatch, sampling: dict[str, Any], size: int, kernels: bool
) -> None:
    monkeypatch.setattr(recording, "survey_ready", lambda: kernels)
    settings = RunConfig(**sampling)
    sampler = Sampler(settings)
    generator = torch.Generator().manual_seed(size)
    logits = torch.randn(7, size, generator=generator) * 4 + 30  # an offset has no effect
    candidates = sampler.draw(sampler.probs(logits[:3]), torch.full((3,), 0.5))
    proposal = Proposal(candidates, sampler.probs(logits[:3]), logits[:3], 1)
    table = TokenTable((b"",) * size, tuple(str(token) for token in range(size)))
    recorder = Recorder(table, settings.temperature)
    insights(recorder, proposal, logits[4:], sampler.probs(logits[4:]))  # leaves no state
    found = insights(recorder, proposal, logits[3:], sampler.probs(logits[3:]))
    shown = {"temperature": 1.0} if settings.greedy else sampling
    chosen = {"top_k": 0, "top_p": 1.0} | shown
    for i, insight in enumerate(found):
        own, theirs = (oracle.processed(logits[row].numpy(), **chosen) for row in (i, i + 3))
        token = int(candidates[i])
        assert insight.draft_prob == pytest.approx(own[token], rel=1e-4)
        assert insight.target_prob == pytest.approx(theirs[token], rel=1e-4, abs=1e-12)
        assert insight.draft_entropy == pytest.approx(entropy(own), rel=1e-3, abs=1e-3)
        assert insight.target_entropy == pytest.approx(entropy(theirs), rel=1e-3, abs=1e-3)
        left = np.maximum(theirs - own, 0.0)
        check_top(insight.draft_top, own)
        check_top(insight.target_top, theirs)
        check_top(insight.residual_top, left / (left.sum() or 1.0))


def insights(
    recorder: Recorder, proposal: Proposal, logits: torch.Tensor, probs: torch.Tensor
) -> list[Insight]:
    found = [each.insight for each in recorder.begin(Lossless(), proposal, logits, probs)()]
    assert None not in found
    return [each for each in found if each is not None]


def entropy(distribution: np.ndarray) -> float:
    return -sum(p * math.log(p) for p in distribution.tolist() if p > 0)


def check_top(top: Alternatives, distribution: np.ndarray) -> None:
    """The likeliest tokens in order, without those too rare for float32."""
    order = np.argsort(-distribution)[:TOP_ALTERNATIVES]
    expected = [share for share in distribution[order].tolist() if share > 1e-6]
    shown = [prob for prob in top.probs if prob > 1e-6]
    assert shown == pytest.approx(expected, rel=1e-2, abs=1e-6)
    assert list(top.probs) == pytest.approx(
        distribution[list(top.token_ids)].tolist(), rel=1e-2, abs=1e-6
    )
    assert min(top.probs, default=1.0) > 0.0
    assert top.texts == tuple(str(token) for token in top.token_ids)


def test_alternatives_have_positive_probability() -> None:
    distribution = torch.tensor([[0.0, 0.5, 0.5, 0.0] + [0.0] * 20])
    proposal = Proposal(torch.tensor([1]), distribution, distribution.log(), 1)
    table = TokenTable((b"",) * 24, ("",) * 24)
    logits = distribution.log().clamp(min=-1e4)
    (insight,) = insights(Recorder(table, 1.0), proposal, logits, distribution)
    assert set(insight.target_top.token_ids) == {1, 2}
    assert insight.target_entropy == pytest.approx(math.log(2))
    assert insight.residual_top == Alternatives(token_ids=(), texts=(), probs=())


@pytest.mark.parametrize("kernels", [True, False], ids=["kernel", "torch"])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_tokens_that_a_draft_cannot_propose_do_not_change_its_entropy(
    monkeypatch: pytest.MonkeyPatch, temperature: float, kernels: bool
) -> None:
    monkeypatch.setattr(recording, "survey_ready", lambda: kernels)
    logits = torch.randn(3, 30, generator=torch.Generator().manual_seed(4))
    drafted = logits.clone()
    drafted[:, ::2] = float("-inf")
    probs = Sampler(RunConfig(temperature=temperature)).probs(drafted)
    proposal = Proposal(torch.tensor([7, 9]), probs[:2], drafted[:2], 0)
    table = TokenTable((b"",) * 30, ("",) * 30)
    found = insights(Recorder(table, temperature), proposal, logits, probs)
    for i, insight in enumerate(found):
        distribution = oracle.processed(drafted[i].numpy(), temperature or 1.0, 0, 1.0)
        assert insight.draft_entropy == pytest.approx(entropy(distribution), rel=1e-4)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_drafter_without_logits_has_one_hot_insights(temperature: float) -> None:
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(3, 30, generator=generator)
    probs = Sampler(RunConfig(temperature=temperature)).probs(logits)
    candidates = torch.tensor([7, 9])
    proposal = Proposal(candidates, one_hot(candidates[:, None], 30), None, 0)
    table = TokenTable((b"",) * 30, ("",) * 30)
    found = insights(Recorder(table, temperature), proposal, logits, probs)
    for i, insight in enumerate(found):
        distribution = oracle.processed(logits[i].numpy(), temperature or 1.0, 0, 1.0)
        assert insight.draft_prob == 1.0
        assert insight.draft_entropy == 0.0
        assert insight.draft_top.token_ids == (int(candidates[i]),)
        assert insight.target_prob == pytest.approx(distribution[int(candidates[i])], rel=1e-4)
        assert insight.target_entropy == pytest.approx(entropy(distribution), rel=1e-4)


def test_at_temperature_0_the_record_shows_temperature_1(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = watch(monkeypatch)
    target = tiny_model("llama")
    pair = pair_of(target, noisy_copy(target))
    settings = RunConfig(temperature=0.0, top_k=3, max_new_tokens=20, ignore_eos=True)
    for entry in speculate(pair, (5, 6, 7), settings):
        proposal, _, result = notes.passes[entry.index]
        assert proposal.logits is not None
        draft, target_distribution = proposal.logits.softmax(-1), result.logits.softmax(-1)
        for i, candidate in enumerate(entry.candidates):
            assert candidate.draft_prob == 1.0
            assert candidate.target_prob in (0.0, 1.0)
            insight = candidate.insight
            assert insight is not None
            assert insight.draft_prob == pytest.approx(float(draft[i, candidate.token_id]))
            assert insight.target_prob == pytest.approx(
                float(target_distribution[i, candidate.token_id])
            )
            assert 0.0 < insight.draft_prob < 1.0
            assert len(insight.target_top.probs) == TOP_ALTERNATIVES
            assert insight.target_entropy > 0.1


LOSSY: tuple[dict[str, Any], ...] = (
    {"epsilon": 0.05, "residual": "leftover"},
    {"epsilon": 0.3, "residual": "target"},
    {"epsilon": 0.1, "residual": "draft", "top_k": 12},
    {"epsilon": 0.1, "residual": "target", "drafter": "prompt-lookup"},
    {"epsilon": 0.2, "residual": "leftover", "temperature": 0.0},
    {"epsilon": 0.2, "residual": "draft", "temperature": 0.0},
)


@pytest.mark.parametrize("sampling", LOSSY, ids=str)
def test_a_lossy_rule_records_its_overlap_and_bias(
    sampling: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = watch(monkeypatch)
    settings = config(rule="over-accept", gamma=3, max_new_tokens=30, **sampling)
    biases: list[float] = []
    for entry in play(llama_pair("lean"), settings):
        proposal, _, result = notes.passes[entry.index]
        for i, candidate in enumerate(entry.candidates):
            own, theirs = proposal.probs[i].double().numpy(), result.probs[i].double().numpy()
            distribution = oracle.emitted_distribution(
                own, theirs, settings.epsilon, settings.residual
            )
            bias = oracle.total_variation(distribution, theirs)
            shared = float(np.minimum(own, theirs).sum())
            assert candidate.overlap == pytest.approx(shared, abs=1e-6)
            assert candidate.bias == pytest.approx(bias, abs=1e-6)
            biases.append(bias)
    assert max(biases) > 0.01


@pytest.mark.parametrize(
    "sampling", [{}, {"rule": "over-accept", "epsilon": 0.1, "record": False}], ids=str
)
def test_no_bias_without_a_lossy_rule_and_record(sampling: dict[str, Any]) -> None:
    rounds = play(llama_pair("lean"), config(max_new_tokens=12, **sampling))
    candidates = [each for entry in rounds for each in entry.candidates]
    assert candidates
    assert {(each.overlap, each.bias) for each in candidates} == {(None, None)}


def test_a_lossy_record_round_trips() -> None:
    settings = config(rule="over-accept", epsilon=0.1, max_new_tokens=12)
    trace = make_trace(play(llama_pair("lean"), settings), config=settings)
    assert all(each.bias is not None for entry in trace.rounds for each in entry.candidates)
    assert trace_from_json(trace_to_json(trace)) == trace


# -- batches


def test_short_rounds_are_recorded_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    begin = Deferred.begin

    def noted(several: Sequence[Deferred[Round]]) -> None:
        begun.append(len(several))
        begin(several)

    monkeypatch.setattr(Deferred, "begin", noted)
    rounds: dict[float, list[Round]] = {}
    for seconds in (0.0, 0.001, 60.0):
        monkeypatch.setattr(speculation, "_BATCH", seconds)
        rounds[seconds] = play(llama_pair("lean"), config(max_new_tokens=60))
        if seconds == 0.0:
            assert begun == [1] * (len(rounds[seconds]) - 1)
        if seconds == 60.0:
            assert begun == []
        begun.clear()
    assert timeless(rounds[0.0]) == timeless(rounds[0.001]) == timeless(rounds[60.0])


def test_rounds_before_a_failing_record_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Speculation._begin_records

    def begin_six(run: Speculation) -> None:
        if len(run._played) >= 6:
            begin(run)

    monkeypatch.setattr(speculation, "_BATCH", 0.0)
    monkeypatch.setattr(Speculation, "_begin_records", begin_six)
    whole = play(llama_pair("lean"), config(max_new_tokens=40))
    insights, written = Recorder._insights, list[int]()

    def failing(self: Recorder, *args: Any) -> Any:
        written.append(1)
        if len(written) == 5:
            raise MemoryError("in the record")
        return insights(self, *args)

    monkeypatch.setattr(Recorder, "_insights", failing)
    run = speculate(llama_pair("lean"), PROMPT, config(max_new_tokens=40))
    kept = [next(run) for _ in range(4)]
    with pytest.raises(MemoryError):
        next(run)
    assert timeless(kept) == timeless(whole[:4])
