"""The kernels that draw tokens and judge chains, compared with torch and with an oracle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specviz.engine.decoding import judging, sampling
from specviz.engine.decoding.judging import ChainJudge
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Draws, Sampler, inverse_cdf
from specviz.engine.decoding.verify import Lossless
from specviz.kernels import readiness
from specviz.kernels.draws import draw_rows
from specviz.kernels.readiness import draws_ready, survey_ready
from specviz.record.run_config import RunConfig
from tests.engine import oracle

SIZES = (1, 63, 64, 65, 1_000)
LARGEST = 1.0 - 2.0**-24  # the largest uniform


@pytest.fixture(autouse=True)
def loaded() -> None:
    assert survey_ready()
    assert draws_ready()


def drawn(weights: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    token_ids = np.empty(len(weights), np.int64)
    draw_rows(weights.astype(np.float32), uniforms.astype(np.float32), token_ids)
    return token_ids


@pytest.mark.parametrize("size", SIZES)
def test_a_draw_inverts_the_cumulative_distribution(size: int) -> None:
    generator = np.random.default_rng(size)
    weights = generator.random((300, size), np.float32) ** 8
    weights[:, generator.random(size) < 0.3] = 0.0
    weights[:, size // 2] = 0.5
    uniforms = generator.integers(0, 2**24, 300) * 2.0**-24
    sums = weights.cumsum(-1, dtype=np.float64)
    expected = (sums <= uniforms[:, None] * sums[:, -1:]).sum(-1)
    assert drawn(weights, uniforms).tolist() == expected.tolist()


@pytest.mark.parametrize("size", SIZES)
def test_zeros_are_never_drawn(size: int) -> None:
    weights = np.zeros((2, size + 130))
    weights[:, 65 : 65 + size] = 1e-30
    assert drawn(weights, np.array([0.0, LARGEST])).tolist() == [65, 64 + size]
    assert drawn(np.zeros((1, size)), np.array([0.5])).tolist() == [size - 1]


@given(st.integers(1, 300), st.integers(0, 2**24 - 1), st.integers(0, 10_000))
def test_rounding_never_leads_to_a_zero(size: int, uniform: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    weights = np.float32(10.0) ** generator.uniform(-30, 0, size).astype(np.float32)
    weights[generator.random(size) < 0.5] = 0.0
    weights[generator.integers(size)] = 1e-3
    token = drawn(weights[None], np.array([uniform * 2.0**-24]))[0]
    assert weights[token] > 0.0


@pytest.fixture(params=[0.0, 0.7], ids=["greedy", "sampled"])
def sampler(request: pytest.FixtureRequest) -> Sampler:
    return Sampler(RunConfig(temperature=request.param))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_chain_is_judged_as_in_torch(
    sampler: Sampler, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(count)
    judge, ends = ChainJudge(Lossless(), sampler), set[int]()
    for _ in range(60):
        logits = torch.randn(count, 700, generator=generator) * 3
        other = torch.randn(count + 1, 700, generator=generator)
        other[:count] = logits + 0.7 * other[:count]
        draft, target = sampler.probs(logits), sampler.probs(other)
        uniforms = torch.rand(2 * count + 1, generator=generator)
        token_ids = sampler.draw(draft, uniforms[1::2])
        known = Proposal(token_ids, draft, logits, 1), target, Draws(uniforms)
        found = judge.judge(*known)
        with monkeypatch.context() as patch:
            patch.setattr(judging, "kernels_can_read", lambda *_: False)
            expected = judge.judge(*known)
        for name in ("token_ids", "path", "rejected", "extra_id"):
            assert getattr(found, name) == getattr(expected, name), name
        for name in ("draft_probs", "target_probs", "extra_draft_prob", "extra_target_prob"):
            assert getattr(found, name) == getattr(expected, name), name
        assert found.expected == pytest.approx(expected.expected, abs=1e-6)
        ends.add(len(found.path))
    assert {0, count} <= ends


@pytest.mark.parametrize("seed", range(40))
def test_verdicts_are_those_of_the_oracle(seed: int) -> None:
    generator = np.random.default_rng(seed)
    size, count = int(generator.integers(2, 90)), int(generator.integers(1, 6))
    rows = generator.dirichlet([0.3] * size, 2 * count + 1).astype(np.float32)
    draft, target = rows[:count], rows[count:]
    target[:count] = (target[:count] + 2 * draft) / 3
    uniforms = generator.integers(0, 2**24, 2 * count + 1).astype(np.float32) * 2.0**-24
    token_ids = drawn(draft, uniforms[1::2])
    own, theirs = draft[range(count), token_ids], target[range(count), token_ids]
    accepted = oracle.verdicts(uniforms[2::2].tolist(), own.tolist(), theirs.tolist())
    last = target[-1] if accepted == count else oracle.recovery(draft[accepted], target[accepted])

    tensors = [torch.from_numpy(each) for each in (token_ids, draft, target, uniforms)]
    proposal = Proposal(tensors[0], tensors[1], None, 0)
    sampler = Sampler(RunConfig(temperature=1.0))
    found = ChainJudge(Lossless(), sampler).judge(proposal, tensors[2], Draws(tensors[3]))
    assert len(found.path) == accepted
    assert found.extra_id == oracle.draw(last.astype(np.float64).tolist(), float(uniforms[0]))
    assert found.expected == pytest.approx(np.minimum(draft, target[:count]).sum(-1), abs=1e-6)


def test_an_empty_residual_gives_the_targets_distribution(sampler: Sampler) -> None:
    rows = torch.tensor([[0.25, 0.75], [0.25, 0.75]])
    proposal = Proposal(torch.tensor([0]), rows[:1], None, 0)
    target = rows.clone()
    target[0, 0] = 0.0  # rejected, and nowhere more probable than under the draft
    found = ChainJudge(Lossless(), sampler).judge(proposal, target, Draws(torch.full((3,), 0.5)))
    assert (found.path, found.rejected, found.extra_id) == ((), (0,), 1)


def test_kernels_are_not_loaded_for_a_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, uniforms = torch.tensor([[0.5, 0.5]]), torch.tensor([0.5])
    readiness._survey_works.cache_clear()
    monkeypatch.setattr(sampling, "draw_rows", lambda *_: pytest.fail("a draw used the kernels"))
    assert inverse_cdf(probs, uniforms).tolist() == [1]
    assert readiness._survey_works.cache_info().currsize == 0
