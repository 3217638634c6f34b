"""Temperature, top-k and top-p against transformers; draws by inverse CDF; keyed uniforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from specviz.engine.decoding.sampling import (
    EXTRA_SLOT,
    Sampler,
    Uniforms,
    draft_slot,
    inverse_cdf,
    keyed_uniforms,
    verdict_slot,
)
from specviz.record.trace import RunConfig
from tests.engine import oracle

SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 1.0},
    {"temperature": 0.3},
    {"temperature": 2.5, "top_k": 1},
    {"temperature": 0.7, "top_k": 3},
    {"temperature": 1.0, "top_k": 40},
    {"temperature": 1.0, "top_k": 10_000},
    {"temperature": 1.0, "top_p": 0.05},
    {"temperature": 1.0, "top_p": 0.8},
    {"temperature": 1.3, "top_p": 0.999},
    {"temperature": 0.8, "top_k": 20, "top_p": 0.7},
)


def transformers_probs(logits: torch.Tensor, settings: dict[str, Any]) -> torch.Tensor:
    no_ids: Any = None  # the warpers ignore ids
    scores: Any = TemperatureLogitsWarper(settings["temperature"])(no_ids, logits)
    if settings.get("top_k"):
        scores = TopKLogitsWarper(settings["top_k"])(no_ids, scores)
    if "top_p" in settings:
        scores = TopPLogitsWarper(settings["top_p"])(no_ids, scores)
    return scores.softmax(-1)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("vocabulary", [50, 5_000])
def test_processing_matches_transformers(settings: dict[str, Any], vocabulary: int) -> None:
    logits = torch.randn(20, vocabulary, generator=torch.Generator().manual_seed(0)) * 3
    ours = Sampler(RunConfig(**settings)).probs(logits)
    theirs = transformers_probs(logits, settings)
    # transformers cumulates from the other end, so top-p may differ by one rare token
    assert float(torch.where((ours > 0) != (theirs > 0), ours + theirs, 0.0).sum(-1).max()) < 1e-5
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.sum(-1), torch.ones(20))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_processing_matches_the_oracle(settings: dict[str, Any]) -> None:
    rows = np.random.default_rng(1).normal(0, 3, (20, 50)).astype(np.float32)
    ours = Sampler(RunConfig(**settings)).probs(torch.from_numpy(rows)).numpy()
    for row, distribution in zip(rows, ours, strict=True):
        expected = oracle.processed(row, **({"top_k": 0, "top_p": 1.0} | settings))
        np.testing.assert_allclose(distribution, expected, atol=1e-6)


def test_top_p_keeps_the_smallest_sufficient_set() -> None:
    logits = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()
    for share, kept in ((0.4, 1), (0.5001, 2), (0.74, 2), (0.76, 3), (0.95, 4)):
        probs = Sampler(RunConfig(temperature=1.0, top_p=share)).probs(logits)
        assert int((probs > 0).sum()) == kept


def test_greedy_is_a_one_hot_at_the_largest_logit() -> None:
    logits = torch.randn(3, 4, 9)
    probs = Sampler(RunConfig(temperature=0.0, top_k=5, top_p=0.5)).probs(logits)
    assert torch.equal(probs.argmax(-1), logits.argmax(-1))
    assert torch.equal(probs.sum(-1), torch.ones(3, 4))
    assert torch.equal(probs.amax(-1), torch.ones(3, 4))


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-45, 1e-300])
def test_a_tiny_temperature_is_greedy_without_nan(temperature: float) -> None:
    logits = torch.tensor([[3.0, -100.0, 3.5, 0.0]])
    probs = Sampler(RunConfig(temperature=temperature)).probs(logits)
    assert probs.tolist() == [[0.0, 0.0, 1.0, 0.0]]


@pytest.mark.parametrize("top_p", [5e-324, 1e-46, 1e-45, 1e-30])
@pytest.mark.parametrize("top_k", [0, 2])
def test_the_smallest_top_p_leaves_the_likeliest_token(top_p: float, top_k: int) -> None:
    logits = torch.tensor([[3.0, -100.0, 3.5, 0.0], [0.0, 0.0, 0.0, 1.0]])
    probs = Sampler(RunConfig(temperature=1.0, top_p=top_p, top_k=top_k)).probs(logits)
    assert probs.tolist() == [[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]


# -- draws

DISTRIBUTIONS = st.lists(
    st.one_of(st.just(0.0), st.floats(2.0**-40, 1.0, width=32)), min_size=1, max_size=12
).filter(any)
UNIFORMS = st.one_of(
    st.just(0.0),
    st.just(1.0 - 2.0**-24),
    st.integers(0, 2**24 - 1).map(lambda k: k * 2.0**-24),
)


@given(DISTRIBUTIONS, UNIFORMS)
def test_a_draw_inverts_the_cumulative_distribution(
    distribution: list[float], uniform: float
) -> None:
    token = int(inverse_cdf(torch.tensor(distribution), torch.tensor(uniform)))
    assert distribution[token] > 0.0
    assert token == oracle.draw(torch.tensor(distribution).double().tolist(), uniform)


def test_no_token_of_probability_zero_is_drawn_at_either_end() -> None:
    generator = torch.Generator().manual_seed(3)
    probs = torch.rand(200, 3_000, generator=generator)
    probs[:, :500] = 0.0
    probs[:, -500:] = 0.0
    probs /= probs.sum(-1, keepdim=True)
    for uniform, token in ((0.0, 500), (1.0 - 2.0**-24, 2_499)):
        drawn = inverse_cdf(probs, torch.full((200,), uniform))
        assert (probs.gather(-1, drawn[:, None]) > 0).all()
        assert (drawn == token).float().mean() > 0.95


def test_draws_follow_the_distribution() -> None:
    distribution = torch.tensor([0.1, 0.0, 0.55, 0.05, 0.3])
    uniforms = torch.tensor([keyed_uniforms(1, index, 0)[0] for index in range(20_000)])
    drawn = inverse_cdf(distribution.expand(20_000, -1), uniforms)
    counts = np.bincount(drawn.numpy(), minlength=5)
    expected = distribution.double().numpy() * 20_000
    kept = expected > 0
    assert counts[1] == 0
    kept_expected = expected[kept] * counts.sum() / expected[kept].sum()
    assert stats.chisquare(counts[kept], kept_expected).pvalue > 1e-3


# -- uniforms


@given(st.integers(0, 2**63 - 1), st.integers(0, 10**6), st.integers(0, 64))
def test_uniforms_are_multiples_of_two_to_the_minus_24(seed: int, index: int, count: int) -> None:
    uniforms = keyed_uniforms(seed, index, count)
    assert uniforms.dtype == np.float32
    assert len(uniforms) == 2 * count + 1
    scaled = uniforms.astype(np.float64) * 2**24
    assert (scaled == np.floor(scaled)).all()
    assert (uniforms >= 0).all()
    assert (uniforms < 1).all()


def test_uniforms_of_a_round_do_not_depend_on_earlier_draws() -> None:
    uniforms = Uniforms(3)
    for index, count in ((5, 4), (0, 1), (5, 4), (10**6, 16)):
        fresh = np.random.Philox(key=3, counter=[0, index, 0, 0]).random_raw(2 * count + 1)
        expected = (fresh >> np.uint64(40)) / 2**24
        assert uniforms.of_round(index, count).tolist() == expected.tolist()


def test_slots_are_distinct() -> None:
    slots = [EXTRA_SLOT, *(slot(i) for i in range(64) for slot in (draft_slot, verdict_slot))]
    assert sorted(slots) == list(range(129))


def test_uniforms_are_uniform_and_independent() -> None:
    drawn = np.array([keyed_uniforms(seed, i, 5) for seed in range(40) for i in range(100)])
    assert stats.kstest(drawn.ravel(), "uniform").pvalue > 1e-3
    correlation = np.corrcoef(drawn.T) - np.eye(drawn.shape[1])
    assert np.abs(correlation).max() < 5 / np.sqrt(len(drawn))
    following = np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]
    assert abs(following) < 5 / np.sqrt(len(drawn))
    assert len(np.unique(drawn)) > 0.99 * drawn.size
