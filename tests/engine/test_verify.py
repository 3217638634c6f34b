"""Verification: the identity, torch against the oracle, and batches against rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.engine.decoding.sampling import Sampler
from specviz.engine.decoding.verify import Lossless, Rule, Verification, verify
from specviz.record.trace import RunConfig
from tests.engine import oracle
from tests.engine.distributions import LAST, UNIFORM, distributions

SAMPLED = Sampler(RunConfig(temperature=1.0))
GREEDY = Sampler(RunConfig(temperature=0.0))


class Probe(Sampler):
    """A sampler that records the distribution it draws from."""

    def __init__(self) -> None:
        super().__init__(RunConfig(temperature=1.0))
        self.distribution = torch.empty(0)

    def draw(self, probs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        self.distribution = probs
        return super().draw(probs, uniforms)


def run_verify(
    draft: np.ndarray,  # [num_candidates, vocabulary]
    target: np.ndarray,  # [num_candidates + 1, vocabulary]
    candidates: list[int],
    uniforms: list[float],
    extra: float = 0.5,
    rule: Rule | None = None,
    sampler: Sampler = SAMPLED,
    dtype: torch.dtype = torch.float32,
) -> Verification:
    return verify(
        rule or Lossless(),
        sampler,
        torch.tensor(candidates, dtype=torch.int64),
        torch.tensor(draft, dtype=dtype).reshape(len(candidates), target.shape[-1]),
        torch.tensor(target, dtype=dtype),
        torch.tensor(uniforms, dtype=torch.float32),
        torch.tensor(extra, dtype=torch.float32),
    )


# -- the algebra


@given(st.integers(1, 9).flatmap(lambda size: st.tuples(distributions(size), distributions(size))))
def test_one_position_emits_exactly_the_targets_distribution(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    draft, target = pair
    np.testing.assert_allclose(
        oracle.emitted_distribution(draft, target), target, rtol=0, atol=1e-12
    )


@given(st.integers(1, 9).flatmap(lambda size: st.tuples(distributions(size), distributions(size))))
def test_the_engines_residual_completes_the_targets_distribution(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    draft, target = pair
    residual = Lossless().residual(torch.from_numpy(draft), torch.from_numpy(target)).numpy()
    # accepted mass and unnormalised residual add up to the target
    np.testing.assert_allclose(
        draft * oracle.odds(draft, target) + residual, target, rtol=0, atol=1e-12
    )
    rejected = 1.0 - (draft * oracle.odds(draft, target)).sum()
    assert residual.sum() == pytest.approx(rejected, abs=1e-12)


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_rounds_emit_exactly_the_targets_joint_distribution(gamma: int, seed: int) -> None:
    size, depth = 3, 3
    rng = np.random.default_rng(seed)
    tables = [
        {p: rng.dirichlet([0.5] * size) for n in range(depth + gamma + 1) for p in _texts(size, n)}
        for _ in range(2)
    ]
    draft, target = tables[0].__getitem__, tables[1].__getitem__
    emitted = oracle.speculative_joint(draft, target, gamma, depth, size)
    expected = oracle.target_joint(target, depth, size)
    assert max(abs(emitted[text] - expected[text]) for text in expected) < 1e-12
    lossy = oracle.speculative_joint(draft, target, gamma, depth, size, source="target")
    assert max(abs(lossy[text] - expected[text]) for text in expected) > 1e-3


def _texts(size: int, length: int) -> list[tuple[int, ...]]:
    return [tuple(index) for index in np.ndindex(*(size,) * length)]


# -- torch against the oracle


@st.composite
def rounds(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, list[int], list[float], float]:
    """Distributions, candidates the draft could have drawn, and uniforms."""
    size, count = draw(st.integers(2, 7)), draw(st.integers(1, 5))
    draft = np.stack([draw(distributions(size)) for _ in range(count)])
    target = np.stack([draw(distributions(size)) for _ in range(count + 1)])
    possible = [np.flatnonzero(row.astype(np.float32)).tolist() for row in draft]
    candidates = [draw(st.sampled_from(tokens)) for tokens in possible]
    uniforms = draw(st.lists(UNIFORM, min_size=count, max_size=count))
    return draft, target, candidates, uniforms, draw(UNIFORM)


@settings(max_examples=150)
@given(rounds())
def test_torch_agrees_with_the_oracle(
    case: tuple[np.ndarray, np.ndarray, list[int], list[float], float],
) -> None:
    draft, target, candidates, uniforms, extra = case
    probe = Probe()
    found = run_verify(draft, target, candidates, uniforms, extra, sampler=probe)
    # the recorded floats are the float32 values, exactly
    own = [float(np.float32(row[x])) for row, x in zip(draft, candidates, strict=True)]
    theirs = [float(np.float32(row[x])) for row, x in zip(target[:-1], candidates, strict=True)]
    assert found.draft_probs.tolist() == own
    assert found.target_probs.tolist() == theirs

    accepted = int(found.num_accepted)
    assert accepted == oracle.verdicts(uniforms, own, theirs)

    distribution = probe.distribution.double().numpy()
    if accepted == len(candidates):
        expected = target[-1]
    else:
        expected = oracle.recovery(
            draft[accepted].astype(np.float32), target[accepted].astype(np.float32)
        )
    np.testing.assert_allclose(distribution / distribution.sum(), expected, atol=1e-6)
    assert int(found.extra) == oracle.draw(probe.distribution.double().tolist(), extra)
    assert distribution[int(found.extra)] > 0.0


@given(rounds())
def test_greedy_is_a_one_hot_through_the_same_function(
    case: tuple[np.ndarray, np.ndarray, list[int], list[float], float],
) -> None:
    draft, target, _, uniforms, extra = case
    size = draft.shape[-1]
    sharp = np.eye(size)[draft.argmax(-1)], np.eye(size)[target.argmax(-1)]
    drafted, wanted = draft.argmax(-1).tolist(), target.argmax(-1).tolist()
    found = run_verify(*sharp, drafted, uniforms, extra, sampler=GREEDY)
    agree = [d == t for d, t in zip(drafted, wanted, strict=False)]
    expected = agree.index(False) if False in agree else len(agree)
    assert int(found.num_accepted) == expected
    assert int(found.extra) == wanted[expected]


@given(distributions(6), st.lists(UNIFORM, min_size=3, max_size=3), UNIFORM)
def test_equal_models_accept_everything(
    distribution: np.ndarray, uniforms: list[float], extra: float
) -> None:
    token = int(distribution.argmax())
    same = np.stack([distribution] * 4)
    found = run_verify(same[:3], same, [token] * 3, uniforms, extra)
    assert int(found.num_accepted) == 3


def test_an_empty_residual_gives_the_target_and_never_nan() -> None:
    """Equal models reject only a candidate that the draft cannot draw."""
    distribution = np.array([0.0, 0.25, 0.75])
    probe = Probe()
    found = run_verify(
        distribution[None], np.stack([distribution, distribution]), [0], [0.5], 0.9, sampler=probe
    )
    assert int(found.num_accepted) == 0
    assert probe.distribution.tolist() == distribution.tolist()
    assert int(found.extra) == 2


def test_no_candidates_draws_from_the_target() -> None:
    target = np.array([[0.25, 0.0, 0.75]])
    for extra, token in ((0.0, 0), (0.24, 0), (0.25, 2), (LAST, 2)):
        found = run_verify(np.empty((0, 3)), target, [], [], extra)
        assert int(found.num_accepted) == 0
        assert int(found.extra) == token
        assert found.draft_probs.shape == (0,)


def test_rejects_a_candidate_of_target_probability_0() -> None:
    draft, target = np.array([[0.5, 0.5]]), np.array([[0.0, 1.0], [0.5, 0.5]])
    for uniform in (0.0, 2.0**-24, 0.5, LAST):
        found = run_verify(draft, target, [0], [uniform])
        assert int(found.num_accepted) == 0
        assert int(found.extra) == 1


def test_candidates_after_the_first_rejection_do_not_matter() -> None:
    draft = np.full((3, 2), 0.5)
    target = np.array([[0.5, 0.5], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5]])
    found = run_verify(draft, target, [0, 0, 0], [0.1, 0.1, 0.1])
    assert int(found.num_accepted) == 1
    assert int(found.extra) == 1


@pytest.mark.parametrize("shape", [(7,), (2, 3), (1, 1, 4)])
def test_a_batch_agrees_with_its_rows(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    size, count = 5, 4
    draft = torch.from_numpy(rng.dirichlet([0.6] * size, (*shape, count))).float()
    target = torch.from_numpy(rng.dirichlet([0.6] * size, (*shape, count + 1))).float()
    candidates = torch.from_numpy(rng.integers(size, size=(*shape, count)))
    uniforms = torch.from_numpy(rng.random((*shape, count))).float()
    extra = torch.from_numpy(rng.random(shape)).float()
    whole = verify(Lossless(), SAMPLED, candidates, draft, target, uniforms, extra)
    assert whole.extra.shape == whole.num_accepted.shape == shape
    for at in np.ndindex(*shape):
        one = verify(
            Lossless(), SAMPLED, candidates[at], draft[at], target[at], uniforms[at], extra[at]
        )
        assert int(one.num_accepted) == int(whole.num_accepted[at])
        assert int(one.extra) == int(whole.extra[at])
        assert one.draft_probs.tolist() == whole.draft_probs[at].tolist()
        assert one.target_probs.tolist() == whole.target_probs[at].tolist()
