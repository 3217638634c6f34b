"""Verification: an identity first, then torch against the oracle, then against itself."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.engine.sampling import Sampler
from specviz.engine.verify import Decision, Lossless, OverAccept, Rule, make_rule, verify
from specviz.trace import RunConfig
from tests.engine import oracle

# The reference example of the theory notes: one draft, one target, five tokens.
REF5_DRAFT = np.array([0.50, 0.20, 0.15, 0.10, 0.05])
REF5_TARGET = np.array([0.25, 0.30, 0.10, 0.25, 0.10])
# epsilon: P(reject), smallest loss, loss with P = target, loss with P = draft
REF5 = {
    0.00: (0.30, 0.00, 0.105, 0.195),
    0.02: (0.26, 0.04, 0.131, 0.209),
    0.05: (0.20, 0.10, 0.170, 0.230),
    0.10: (0.15, 0.15, 0.2025, 0.2475),
    0.15: (0.10, 0.20, 0.235, 0.265),
    0.20: (0.05, 0.25, 0.2675, 0.2825),
    0.25: (0.00, 0.30, 0.300, 0.300),
    0.40: (0.00, 0.30, 0.300, 0.300),
}
SOURCES: dict[Literal["leftover", "target", "draft"], int] = {
    "leftover": 1,
    "target": 2,
    "draft": 3,
}
SAMPLED = Sampler(RunConfig(temperature=1.0))
GREEDY = Sampler(RunConfig(temperature=0.0))
LAST = 1.0 - 2.0**-24  # the largest uniform there is


def _normalised(weights: list[int]) -> np.ndarray:
    law = np.array(weights, dtype=np.float64)
    return law / law.sum()


def laws(vocabulary: int) -> st.SearchStrategy[np.ndarray]:
    """Distributions, many with tokens of probability zero, some with tiny ones."""
    weight = st.one_of(st.just(0), st.integers(1, 20), st.integers(1, 10**9))
    many = st.lists(weight, min_size=vocabulary, max_size=vocabulary)
    return many.filter(any).map(_normalised)


UNIFORM = st.one_of(
    st.just(0.0), st.just(LAST), st.integers(0, 2**24 - 1).map(lambda k: k * 2.0**-24)
)


class Probe(Sampler):
    """A sampler that keeps the law it was asked to draw from."""

    def __init__(self) -> None:
        super().__init__(RunConfig(temperature=1.0))
        self.law = torch.empty(0)

    def draw(self, probs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        self.law = probs
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
) -> Decision:
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


@given(st.integers(1, 9).flatmap(lambda size: st.tuples(laws(size), laws(size))))
def test_one_position_emits_exactly_the_law_of_the_target(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    draft, target = pair
    np.testing.assert_allclose(oracle.emitted_law(draft, target), target, rtol=0, atol=1e-12)


@given(st.integers(1, 9).flatmap(lambda size: st.tuples(laws(size), laws(size))))
def test_the_engines_own_residual_makes_the_emitted_law_the_targets(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    draft, target = pair
    residual = Lossless().residual(torch.from_numpy(draft), torch.from_numpy(target)).numpy()
    # what is accepted and the residual, unnormalised, already add up to the target
    np.testing.assert_allclose(
        draft * oracle.odds(draft, target) + residual, target, rtol=0, atol=1e-12
    )
    rejected = 1.0 - (draft * oracle.odds(draft, target)).sum()
    assert residual.sum() == pytest.approx(rejected, abs=1e-12)


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_rounds_over_models_with_context_emit_exactly_the_joint_law_of_the_target(
    gamma: int, seed: int
) -> None:
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
    draft = np.stack([draw(laws(size)) for _ in range(count)])
    target = np.stack([draw(laws(size)) for _ in range(count + 1)])
    possible = [np.flatnonzero(row.astype(np.float32)).tolist() for row in draft]
    candidates = [draw(st.sampled_from(tokens)) for tokens in possible]
    uniforms = draw(st.lists(UNIFORM, min_size=count, max_size=count))
    return draft, target, candidates, uniforms, draw(UNIFORM)


@settings(max_examples=300)
@given(rounds())
def test_torch_agrees_with_the_oracle(
    case: tuple[np.ndarray, np.ndarray, list[int], list[float], float],
) -> None:
    draft, target, candidates, uniforms, extra = case
    probe = Probe()
    decision = run_verify(draft, target, candidates, uniforms, extra, sampler=probe)
    # the recorded floats are the float32 values, exactly
    own = [float(np.float32(row[x])) for row, x in zip(draft, candidates, strict=True)]
    theirs = [float(np.float32(row[x])) for row, x in zip(target[:-1], candidates, strict=True)]
    assert decision.draft_probs.tolist() == own
    assert decision.target_probs.tolist() == theirs

    accepted = int(decision.num_accepted)
    assert accepted == oracle.verdicts(uniforms, own, theirs)

    law = probe.law.double().numpy()
    if accepted == len(candidates):
        expected = target[-1]
    else:
        expected = oracle.recovery(
            draft[accepted].astype(np.float32), target[accepted].astype(np.float32)
        )
    np.testing.assert_allclose(law, expected, atol=1e-6)
    assert int(decision.extra) == oracle.draw(probe.law.double().tolist(), extra)
    assert law[int(decision.extra)] > 0.0


@given(rounds())
def test_greedy_is_a_one_hot_through_the_same_function(
    case: tuple[np.ndarray, np.ndarray, list[int], list[float], float],
) -> None:
    draft, target, _, uniforms, extra = case
    size = draft.shape[-1]
    sharp = np.eye(size)[draft.argmax(-1)], np.eye(size)[target.argmax(-1)]
    drafted, wanted = draft.argmax(-1).tolist(), target.argmax(-1).tolist()
    decision = run_verify(*sharp, drafted, uniforms, extra, sampler=GREEDY)
    agree = [d == t for d, t in zip(drafted, wanted, strict=False)]
    expected = agree.index(False) if False in agree else len(agree)
    assert int(decision.num_accepted) == expected
    assert int(decision.extra) == wanted[expected]


@given(laws(6), st.lists(UNIFORM, min_size=3, max_size=3), UNIFORM)
def test_equal_models_accept_everything(
    law: np.ndarray, uniforms: list[float], extra: float
) -> None:
    token = int(law.argmax())
    same = np.stack([law] * 4)
    decision = run_verify(same[:3], same, [token] * 3, uniforms, extra)
    assert int(decision.num_accepted) == 3


def test_an_empty_residual_gives_the_target_and_never_nan() -> None:
    """A rejection where the two agree can only come of a candidate the draft never drew."""
    law = np.array([0.0, 0.25, 0.75])
    probe = Probe()
    decision = run_verify(law[None], np.stack([law, law]), [0], [0.5], 0.9, sampler=probe)
    assert int(decision.num_accepted) == 0
    assert probe.law.tolist() == law.tolist()
    assert int(decision.extra) == 2


def test_no_candidates_draws_from_the_target() -> None:
    target = np.array([[0.25, 0.0, 0.75]])
    for extra, token in ((0.0, 0), (0.24, 0), (0.25, 2), (LAST, 2)):
        decision = run_verify(np.empty((0, 3)), target, [], [], extra)
        assert int(decision.num_accepted) == 0
        assert int(decision.extra) == token
        assert decision.draft_probs.shape == (0,)


def test_a_candidate_the_target_rules_out_is_rejected_whatever_the_uniform() -> None:
    draft, target = np.array([[0.5, 0.5]]), np.array([[0.0, 1.0], [0.5, 0.5]])
    for uniform in (0.0, 2.0**-24, 0.5, LAST):
        decision = run_verify(draft, target, [0], [uniform])
        assert int(decision.num_accepted) == 0
        assert int(decision.extra) == 1


def test_nothing_after_the_first_rejection_counts() -> None:
    draft = np.full((3, 2), 0.5)
    target = np.array([[0.5, 0.5], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5]])
    decision = run_verify(draft, target, [0, 0, 0], [0.1, 0.1, 0.1])
    assert int(decision.num_accepted) == 1
    assert int(decision.extra) == 1


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


# -- the lossy rule


def rule_odds(rule: Rule, draft: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Chance that the rule accepts each token, found by bisection on its verdicts alone."""
    low, high = np.zeros_like(draft), np.ones_like(draft)
    own, theirs = torch.from_numpy(draft), torch.from_numpy(target)
    for _ in range(60):
        middle = (low + high) / 2
        accepted = rule.accepts(torch.from_numpy(middle), own, theirs).numpy()
        low, high = np.where(accepted, middle, low), np.where(accepted, high, middle)
    return high


def rule_law(rule: Rule, draft: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
    """P(reject) and the emitted law, from the rule's verdicts and its residual."""
    accepted = draft * rule_odds(rule, draft, target)
    residual = rule.residual(torch.from_numpy(draft), torch.from_numpy(target)).numpy()
    rejected = 1.0 - float(accepted.sum())
    return rejected, accepted + rejected * residual / residual.sum()


@given(laws(5), laws(5), st.sampled_from([0.0, 0.01, 0.3, 1.0]))
def test_the_verdicts_have_the_odds_of_the_rule(
    draft: np.ndarray, target: np.ndarray, epsilon: float
) -> None:
    drafted = draft > 0
    found = rule_odds(OverAccept(epsilon), draft, target)[drafted]
    np.testing.assert_allclose(found, oracle.odds(draft, target, epsilon)[drafted], atol=1e-12)


@pytest.mark.parametrize("epsilon", REF5)
@pytest.mark.parametrize("source", SOURCES)
def test_over_acceptance_has_the_reference_losses(
    epsilon: float, source: Literal["leftover", "target", "draft"]
) -> None:
    rejected, law = rule_law(OverAccept(epsilon, source), REF5_DRAFT, REF5_TARGET)
    assert rejected == pytest.approx(REF5[epsilon][0], abs=1e-12)
    loss = oracle.total_variation(law, REF5_TARGET)
    assert loss == pytest.approx(REF5[epsilon][SOURCES[source]], abs=1e-12)
    by_hand = oracle.emitted_law(REF5_DRAFT, REF5_TARGET, epsilon, source)
    np.testing.assert_allclose(law, by_hand, atol=1e-12)


@given(laws(6), laws(6), st.sampled_from([0.0, 1e-3, 0.1, 0.5, 1.0]), st.sampled_from([*SOURCES]))
def test_the_bias_is_the_distance_of_the_emitted_law(
    draft: np.ndarray,
    target: np.ndarray,
    epsilon: float,
    source: Literal["leftover", "target", "draft"],
) -> None:
    law = oracle.emitted_law(draft, target, epsilon, source)
    distance = oracle.total_variation(law, target)
    rule, own, theirs = OverAccept(epsilon, source), torch.tensor(draft), torch.tensor(target)
    assert rule.bias(own, theirs).item() == pytest.approx(distance, abs=1e-12)
    assert rule.bias(own.float(), theirs.float()).item() == pytest.approx(distance, abs=1e-6)
    assert (own.numpy() == draft).all()  # read, not used up
    assert (theirs.numpy() == target).all()


@pytest.mark.parametrize("epsilon", REF5)
def test_the_bias_has_the_reference_values(epsilon: float) -> None:
    rows = torch.from_numpy(REF5_DRAFT).expand(2, -1), torch.from_numpy(REF5_TARGET).expand(2, -1)
    for source, place in SOURCES.items():
        found = OverAccept(epsilon, source).bias(*rows).tolist()
        assert found == pytest.approx([REF5[epsilon][place]] * 2, abs=1e-12)


def test_the_lossless_rule_has_no_bias_to_record() -> None:
    assert Lossless().bias(torch.from_numpy(REF5_DRAFT), torch.from_numpy(REF5_TARGET)) is None


@pytest.mark.parametrize("epsilon", REF5)
def test_rejections_and_the_smallest_loss_add_up_to_the_distance(epsilon: float) -> None:
    rejected, law = rule_law(OverAccept(epsilon), REF5_DRAFT, REF5_TARGET)
    distance = oracle.total_variation(REF5_DRAFT, REF5_TARGET)
    loss = oracle.total_variation(law, REF5_TARGET)
    assert rejected + loss == pytest.approx(distance, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.20])
@pytest.mark.parametrize("source", SOURCES)
def test_over_acceptance_has_the_reference_losses_in_samples(
    epsilon: float, source: Literal["leftover", "target", "draft"]
) -> None:
    """Drafted, verified and drawn 200,000 times: law and rejections within five deviations."""
    count = 200_000
    rng = np.random.default_rng(11)
    rule = OverAccept(epsilon, source)
    draft = torch.from_numpy(REF5_DRAFT).float()
    target = torch.from_numpy(REF5_TARGET).float()
    uniforms = torch.from_numpy(rng.integers(2**24, size=(3, count)) * 2.0**-24).float()
    candidates = SAMPLED.draw(draft.expand(count, -1), uniforms[0])[:, None]
    decision = verify(
        rule,
        SAMPLED,
        candidates,
        draft.expand(count, 1, -1),
        target.expand(count, 2, -1),
        uniforms[1][:, None],
        uniforms[2],
    )
    first = torch.where(decision.num_accepted > 0, candidates[:, 0], decision.extra)
    law = np.bincount(first.numpy(), minlength=5) / count
    expected = oracle.emitted_law(REF5_DRAFT, REF5_TARGET, epsilon, source)
    deviation = np.sqrt(expected * (1 - expected) / count)
    assert (np.abs(law - expected) < 5 * deviation).all()
    rejected = float((decision.num_accepted == 0).double().mean())
    wanted = REF5[epsilon][0]
    assert abs(rejected - wanted) < 5 * np.sqrt(max(wanted * (1 - wanted), 1e-12) / count)


def test_the_rule_of_a_config() -> None:
    assert make_rule(RunConfig()) == Lossless()
    lossy = RunConfig(rule="over-accept", epsilon=0.1, residual="target")
    assert make_rule(lossy) == OverAccept(0.1, "target")


@given(laws(5), laws(5))
def test_over_acceptance_by_nothing_is_lossless(draft: np.ndarray, target: np.ndarray) -> None:
    own, theirs = torch.from_numpy(draft), torch.from_numpy(target)
    uniforms = torch.linspace(0, LAST, 50, dtype=torch.float64)[:, None]
    assert torch.equal(
        OverAccept(0.0).accepts(uniforms, own, theirs), Lossless().accepts(uniforms, own, theirs)
    )
    assert torch.equal(OverAccept(0.0).residual(own, theirs), Lossless().residual(own, theirs))


def test_the_acceptance_before_the_draw_knows_the_rule() -> None:
    draft, target = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.3, 0.5])
    assert Lossless().expected(draft, target).item() == pytest.approx(0.7)
    # min(.5, .3) + min(.3, .4) + min(.2, .6): what b = min(1, (target + epsilon) / draft) gives.
    assert OverAccept(0.1).expected(draft, target).item() == pytest.approx(0.8)
    accepts = torch.clamp((target + 0.1) / draft, max=1.0)
    assert OverAccept(0.1).expected(draft, target).item() == pytest.approx(
        (draft * accepts).sum().item()
    )
