"""The judges of the engine against enumerations that share no code with them.

Algebra: a judge's acceptance probabilities and residuals add up to the target's distribution, to
1e-12. Statistics: the first tokens of the loop have the enumerated distribution.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from specviz.engine import speculate
from specviz.engine.decoding import block_verification as block_code
from specviz.engine.decoding import tree_verification as sibling_code
from specviz.engine.decoding.block_verification import acceptance_coins, joint_weights, residuals
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Noise
from specviz.engine.decoding.token_matching import SharedNoise
from specviz.record.run_config import RunConfig
from specviz.theory.rounds import Emitted, Kernel, round_bias
from tests.engine.test_lossless import (
    DEPTH,
    ENOUGH,
    PROMPT,
    VOCABULARY,
    exact_distribution,
    p_value,
    tiny_pair,
)
from tests.oracles.couplings import coupled_acceptance, coupled_floor
from tests.theory.kernels import ROUNDING, both, seeds, sizes

RUNS = 350  # enough to detect the wrong coins below
MANY_RUNS = 7_000
METHODS: dict[str, dict[str, Any]] = {
    "block": {"rule": "block", "gamma": 3},
    "coupled": {"rule": "coupled", "gamma": 2},
    "match": {"rule": "match", "gamma": 2},
    "drafts": {"num_drafts": 3, "gamma": 2},
    "drafts that differ": {"num_drafts": 3, "gamma": 2, "replacement": False},
    "tree": {"branching": (3, 2)},
    "tree by matching": {"branching": (3, 2), "rule": "match"},
    "dynamic tree": {"dynamic_tree": (3, 5), "gamma": 2},
    "dynamic tree by matching": {"dynamic_tree": (3, 5), "gamma": 2, "rule": "match"},
    "sure": {"draft_until": "confidence:0.4", "gamma": 3},
}


def rows(kernel: Kernel, texts: list[tuple[int, ...]]) -> torch.Tensor:
    return torch.tensor(np.array([kernel(text) for text in texts]))


def block_distribution(draft: Kernel, target: Kernel, vocabulary: int, gamma: int) -> Emitted:
    """The distribution emitted by the engine's weights, coins and residuals."""
    emitted: Emitted = {}
    for block in itertools.product(range(vocabulary), repeat=gamma):
        before = [block[:place] for place in range(gamma + 1)]
        drafted, wanted = rows(draft, before[:-1]), rows(target, before)
        own = [float(drafted[i, token]) for i, token in enumerate(block)]
        if not all(own):
            continue
        weights = joint_weights([float(wanted[i, t]) / own[i] for i, t in enumerate(block)])
        residual = residuals(weights, drafted, wanted)
        coins = acceptance_coins(weights, residual.sum(-1).tolist()[:gamma])
        behind = float(np.prod(own))
        for num_accepted in range(gamma, -1, -1):
            share = behind * (coins[num_accepted - 1] if num_accepted else 1.0)
            behind -= share
            total = float(residual[num_accepted].sum())
            for token in range(vocabulary):
                chance = share * float(residual[num_accepted, token]) / total if total else 0.0
                text = (*block[:num_accepted], token)
                emitted[text] = emitted.get(text, 0.0) + chance
    return emitted


@settings(max_examples=25, deadline=None)
@given(seeds, sizes)
def test_block_verification_emits_the_targets_distribution(
    seed: int, size: tuple[int, int]
) -> None:
    vocabulary, depth = size
    draft, target = both(seed, vocabulary, depth)
    assert (
        round_bias(block_distribution(draft, target, vocabulary, min(depth, 3)), target) < ROUNDING
    )


def test_detects_a_block_that_stops_at_the_first_failed_coin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draft, target = both(3, 3, 3)
    monkeypatch.setattr(
        "tests.engine.test_judges.acceptance_coins", lambda weights, totals: [*weights[1:]]
    )
    assert round_bias(block_distribution(draft, target, 3, 3), target) > 1e-3


def siblings_distribution(
    draft: np.ndarray, target: np.ndarray, count: int, *, repeats: bool
) -> np.ndarray:
    """The distribution after a node by the engine's residuals, over every drawn order."""
    emitted = np.zeros_like(target)
    for drawn in itertools.product(range(len(draft)), repeat=count):
        distributions, chance, distribution = list[np.ndarray](), 1.0, draft.copy()
        for token in drawn:
            distributions.append(distribution)
            chance *= distribution[token]
            if not repeats and chance:
                distribution = np.where(np.arange(len(distribution)) == token, 0.0, distribution)
                distribution = (
                    distribution / distribution.sum() if distribution.sum() else distribution
                )
        if not chance:
            continue
        proposal = Proposal(
            torch.tensor(drawn), torch.tensor(np.array(distributions)), None, 1, (-1,) * count
        )
        probs = torch.tensor(np.vstack([target] * (count + 1)))
        walk = sibling_code._Walk(proposal, probs, torch.zeros(count))
        residual = probs[0]
        for child, token in enumerate(drawn):
            after = walk._remaining_after(child, residual)
            chance_accepted = min(1.0, walk.target_probs[child] / walk.draft_probs[child])
            emitted[token] += chance * chance_accepted
            chance, residual = chance * (1.0 - chance_accepted), after
        emitted += chance * residual.numpy()
    return emitted


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_siblings_emit_the_targets_distribution(seed: int) -> None:
    draft, target = (np.asarray(each(())) for each in both(seed, 5, 1))
    for repeats in (True, False):
        most = 3 if repeats else min(3, int((draft > 0).sum()))
        found = siblings_distribution(draft, target, most, repeats=repeats)
        assert np.abs(found - target).max() < ROUNDING


@settings(max_examples=50, deadline=None)
@given(seeds, sizes)
def test_expected_agreement_under_shared_noise(seed: int, size: tuple[int, int]) -> None:
    draft, target = (np.asarray(each(())) for each in both(seed, size[0], 1))
    found = float(SharedNoise().expected(torch.tensor(draft)[None], torch.tensor(target)[None]))
    assert found == pytest.approx(coupled_acceptance(draft, target), abs=ROUNDING)
    assert found >= coupled_floor(draft, target) - ROUNDING


def first_tokens(method: str, count: int) -> np.ndarray:
    """Cells of the first tokens of ``count`` runs of the loop."""
    cells = []
    for seed in range(count):
        config = RunConfig(
            temperature=1.0, max_new_tokens=DEPTH, ignore_eos=True, record=False, seed=seed,
            **METHODS[method],
        )  # fmt: skip
        run = speculate(tiny_pair(), PROMPT, config)
        text = [token for entry in run for token in entry.emitted]
        cells.append(sum(t * VOCABULARY ** (DEPTH - 1 - i) for i, t in enumerate(text)))
    return np.array(cells)


@pytest.mark.parametrize("method", METHODS)
def test_the_loop_has_the_targets_distribution(method: str) -> None:
    assert p_value(first_tokens(method, RUNS), exact_distribution("plain")) > ENOUGH


@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS)
def test_the_loop_has_the_targets_distribution_in_many_runs(method: str) -> None:
    assert p_value(first_tokens(method, MANY_RUNS), exact_distribution("plain")) > ENOUGH


@pytest.mark.thorough
def test_detects_a_wrong_residual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Siblings drawn without replacement but judged as if with replacement."""
    down = sibling_code._Walk.down

    def careless(walk: sibling_code._Walk) -> tuple[int, torch.Tensor]:
        first = [walk.proposal.children[parent][0] for parent in walk.proposal.in_tree]
        walk.proposal = Proposal(
            walk.proposal.token_ids,
            walk.proposal.probs[first],
            walk.proposal.logits,
            walk.proposal.catch_up,
            walk.proposal.parents,
        )
        walk.__post_init__()
        return down(walk)

    monkeypatch.setattr(sibling_code._Walk, "down", careless)
    assert p_value(first_tokens("drafts that differ", 1_400), exact_distribution("plain")) < ENOUGH


def test_detects_wrong_coins_in_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        block_code, "acceptance_coins", lambda weights, totals: [1.0 for _ in weights[1:]]
    )
    assert p_value(first_tokens("block", RUNS), exact_distribution("plain")) < ENOUGH


def test_noise_is_exponential_and_keyed_by_position() -> None:
    noise = Noise(7, 1000, torch.device("cpu"))
    ahead = noise.rows(3, 4)
    assert torch.equal(noise.rows(5, 2), ahead[2:])
    assert torch.equal(Noise(7, 1000, torch.device("cpu")).rows(6, 1)[0], ahead[3])
    assert float(ahead.mean()) == pytest.approx(1.0, abs=0.06)
    assert float((ahead > 1.0).double().mean()) == pytest.approx(np.exp(-1), abs=0.04)
