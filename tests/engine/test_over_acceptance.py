"""Over-acceptance: its odds, its losses against the reference, and its recorded bias."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specviz.engine.decoding.sampling import Sampler
from specviz.engine.decoding.verify import Lossless, OverAccept, Rule, make_rule, verify
from specviz.record.trace import RunConfig
from specviz.theory.examples import REF5
from tests.engine import oracle
from tests.engine.distributions import LAST, distributions
from tests.oracles.printed_values import OVER_ACCEPT

REF5_DRAFT, REF5_TARGET = np.array(REF5.draft), np.array(REF5.target)
SOURCES: dict[Literal["leftover", "target", "draft"], int] = {
    "leftover": 1,
    "target": 2,
    "draft": 3,
}
SAMPLED = Sampler(RunConfig(temperature=1.0))


def rule_odds(rule: Rule, draft: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Acceptance probability of each token, found by bisection on the verdicts."""
    low, high = np.zeros_like(draft), np.ones_like(draft)
    own, theirs = torch.from_numpy(draft), torch.from_numpy(target)
    for _ in range(60):
        middle = (low + high) / 2
        accepted = rule.accepts(torch.from_numpy(middle), own, theirs, theirs).numpy()
        low, high = np.where(accepted, middle, low), np.where(accepted, high, middle)
    return high


def rule_distribution(
    rule: Rule, draft: np.ndarray, target: np.ndarray
) -> tuple[float, np.ndarray]:
    """P(reject) and the emitted distribution, from the rule's verdicts and residual."""
    accepted = draft * rule_odds(rule, draft, target)
    residual = rule.residual(torch.from_numpy(draft), torch.from_numpy(target)).numpy()
    rejected = 1.0 - float(accepted.sum())
    return rejected, accepted + rejected * residual / residual.sum()


@given(distributions(5), distributions(5), st.sampled_from([0.0, 0.01, 0.3, 1.0]))
def test_the_verdicts_have_the_odds_of_the_rule(
    draft: np.ndarray, target: np.ndarray, epsilon: float
) -> None:
    drafted = draft > 0
    found = rule_odds(OverAccept(epsilon), draft, target)[drafted]
    np.testing.assert_allclose(found, oracle.odds(draft, target, epsilon)[drafted], atol=1e-12)


@pytest.mark.parametrize("epsilon", OVER_ACCEPT)
@pytest.mark.parametrize("source", SOURCES)
def test_over_acceptance_has_the_reference_losses(
    epsilon: float, source: Literal["leftover", "target", "draft"]
) -> None:
    rejected, distribution = rule_distribution(OverAccept(epsilon, source), REF5_DRAFT, REF5_TARGET)
    assert rejected == pytest.approx(OVER_ACCEPT[epsilon][0], abs=1e-12)
    loss = oracle.total_variation(distribution, REF5_TARGET)
    assert loss == pytest.approx(OVER_ACCEPT[epsilon][SOURCES[source]], abs=1e-12)
    by_hand = oracle.emitted_distribution(REF5_DRAFT, REF5_TARGET, epsilon, source)
    np.testing.assert_allclose(distribution, by_hand, atol=1e-12)


@given(
    distributions(6),
    distributions(6),
    st.sampled_from([0.0, 1e-3, 0.1, 0.5, 1.0]),
    st.sampled_from([*SOURCES]),
)
def test_the_bias_is_the_distance_of_the_emitted_distribution(
    draft: np.ndarray,
    target: np.ndarray,
    epsilon: float,
    source: Literal["leftover", "target", "draft"],
) -> None:
    distribution = oracle.emitted_distribution(draft, target, epsilon, source)
    distance = oracle.total_variation(distribution, target)
    rule, own, theirs = OverAccept(epsilon, source), torch.tensor(draft), torch.tensor(target)
    assert rule.bias(own, theirs).item() == pytest.approx(distance, abs=1e-12)
    assert rule.bias(own.float(), theirs.float()).item() == pytest.approx(distance, abs=1e-6)
    assert (own.numpy() == draft).all()  # inputs are not modified
    assert (theirs.numpy() == target).all()


@pytest.mark.parametrize("epsilon", OVER_ACCEPT)
def test_the_bias_has_the_reference_values(epsilon: float) -> None:
    rows = torch.from_numpy(REF5_DRAFT).expand(2, -1), torch.from_numpy(REF5_TARGET).expand(2, -1)
    for source, place in SOURCES.items():
        found = OverAccept(epsilon, source).bias(*rows).tolist()
        assert found == pytest.approx([OVER_ACCEPT[epsilon][place]] * 2, abs=1e-12)


def test_the_lossless_rule_has_no_bias_to_record() -> None:
    assert Lossless().bias(torch.from_numpy(REF5_DRAFT), torch.from_numpy(REF5_TARGET)) is None


@pytest.mark.parametrize("epsilon", OVER_ACCEPT)
def test_rejections_and_the_smallest_loss_add_up_to_the_distance(epsilon: float) -> None:
    rejected, distribution = rule_distribution(OverAccept(epsilon), REF5_DRAFT, REF5_TARGET)
    distance = oracle.total_variation(REF5_DRAFT, REF5_TARGET)
    loss = oracle.total_variation(distribution, REF5_TARGET)
    assert rejected + loss == pytest.approx(distance, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.20])
@pytest.mark.parametrize("source", SOURCES)
def test_over_acceptance_has_the_reference_losses_in_samples(
    epsilon: float, source: Literal["leftover", "target", "draft"]
) -> None:
    """200,000 samples: distribution and rejections within five standard deviations."""
    count = 200_000
    rng = np.random.default_rng(11)
    rule = OverAccept(epsilon, source)
    draft = torch.from_numpy(REF5_DRAFT).float()
    target = torch.from_numpy(REF5_TARGET).float()
    uniforms = torch.from_numpy(rng.integers(2**24, size=(3, count)) * 2.0**-24).float()
    candidates = SAMPLED.draw(draft.expand(count, -1), uniforms[0])[:, None]
    found = verify(
        rule,
        SAMPLED,
        candidates,
        draft.expand(count, 1, -1),
        target.expand(count, 2, -1),
        uniforms[1][:, None],
        uniforms[2],
    )
    first = torch.where(found.num_accepted > 0, candidates[:, 0], found.extra)
    distribution = np.bincount(first.numpy(), minlength=5) / count
    expected = oracle.emitted_distribution(REF5_DRAFT, REF5_TARGET, epsilon, source)
    deviation = np.sqrt(expected * (1 - expected) / count)
    assert (np.abs(distribution - expected) < 5 * deviation).all()
    rejected = float((found.num_accepted == 0).double().mean())
    wanted = OVER_ACCEPT[epsilon][0]
    assert abs(rejected - wanted) < 5 * np.sqrt(max(wanted * (1 - wanted), 1e-12) / count)


def test_the_rule_of_a_config() -> None:
    assert make_rule(RunConfig()) == Lossless()
    lossy = RunConfig(rule="over-accept", epsilon=0.1, residual="target")
    assert make_rule(lossy) == OverAccept(0.1, "target")


@given(distributions(5), distributions(5))
def test_over_acceptance_with_epsilon_0_is_lossless(draft: np.ndarray, target: np.ndarray) -> None:
    own, theirs = torch.from_numpy(draft), torch.from_numpy(target)
    uniforms = torch.linspace(0, LAST, 50, dtype=torch.float64)[:, None]
    assert torch.equal(
        OverAccept(0.0).accepts(uniforms, own, theirs, theirs),
        Lossless().accepts(uniforms, own, theirs, theirs),
    )
    assert torch.equal(OverAccept(0.0).residual(own, theirs), Lossless().residual(own, theirs))


def test_expected_acceptance_depends_on_the_rule() -> None:
    draft, target = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.3, 0.5])
    assert Lossless().expected(draft, target).item() == pytest.approx(0.7)
    # min(.5, .3) + min(.3, .4) + min(.2, .6): what b = min(1, (target + epsilon) / draft) gives.
    assert OverAccept(0.1).expected(draft, target).item() == pytest.approx(0.8)
    accepts = torch.clamp((target + 0.1) / draft, max=1.0)
    assert OverAccept(0.1).expected(draft, target).item() == pytest.approx(
        (draft * accepts).sum().item()
    )
