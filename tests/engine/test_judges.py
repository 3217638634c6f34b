"""The judges of the engine against enumerations that share no code with them.

As algebra: the law that a judge's own chances and residuals add up to is the target's, to 1e-12.
As statistics: the first tokens of the whole loop have the law that enumeration gives.
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
from specviz.engine.decoding.block_verification import coins_of, joint_weights, leftovers
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Noise
from specviz.engine.decoding.token_matching import SharedNoise
from specviz.record.run_config import RunConfig
from specviz.theory.couplings import coupled_acceptance, coupled_floor
from specviz.theory.rounds import Emitted, Kernel, round_bias
from tests.engine.test_lossless import (
    DEPTH,
    ENOUGH,
    PROMPT,
    VOCABULARY,
    exact_law,
    p_value,
    tiny_pair,
)
from tests.theory.kernels import ROUNDING, both, seeds, sizes

RUNS = 700
WAYS: dict[str, dict[str, Any]] = {
    "block": {"rule": "block", "gamma": 3},
    "coupled": {"rule": "coupled", "gamma": 2},
    "match": {"rule": "match", "gamma": 2},
    "drafts": {"num_drafts": 3, "gamma": 2},
    "drafts that differ": {"num_drafts": 3, "gamma": 2, "replacement": False},
    "tree": {"branching": (3, 2)},
    "sure": {"draft_until": "confidence:0.4", "gamma": 3},
}


def rows(kernel: Kernel, texts: list[tuple[int, ...]]) -> torch.Tensor:
    return torch.tensor(np.array([kernel(text) for text in texts]))


def block_law(draft: Kernel, target: Kernel, vocabulary: int, gamma: int) -> Emitted:
    """What the engine's weights, coins and residuals emit."""
    emitted: Emitted = {}
    for block in itertools.product(range(vocabulary), repeat=gamma):
        before = [block[:place] for place in range(gamma + 1)]
        drafted, wanted = rows(draft, before[:-1]), rows(target, before)
        own = [float(drafted[i, token]) for i, token in enumerate(block)]
        if not all(own):
            continue
        weights = joint_weights([float(wanted[i, t]) / own[i] for i, t in enumerate(block)])
        left = leftovers(weights, drafted, wanted)
        coins = coins_of(weights, left.sum(-1).tolist()[:gamma])
        behind = float(np.prod(own))
        for stand in range(gamma, -1, -1):
            share = behind * (coins[stand - 1] if stand else 1.0)
            behind -= share
            total = float(left[stand].sum())
            for token in range(vocabulary):
                chance = share * float(left[stand, token]) / total if total else 0.0
                text = (*block[:stand], token)
                emitted[text] = emitted.get(text, 0.0) + chance
    return emitted


@settings(max_examples=25, deadline=None)
@given(seeds, sizes)
def test_blocks_emit_the_targets_law(seed: int, size: tuple[int, int]) -> None:
    vocabulary, depth = size
    draft, target = both(seed, vocabulary, depth)
    assert round_bias(block_law(draft, target, vocabulary, min(depth, 3)), target) < ROUNDING


def test_a_block_that_ends_at_a_failed_coin_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    draft, target = both(3, 3, 3)
    monkeypatch.setattr("tests.engine.test_judges.coins_of", lambda weights, totals: [*weights[1:]])
    assert round_bias(block_law(draft, target, 3, 3), target) > 1e-3


def siblings_law(draft: np.ndarray, target: np.ndarray, count: int, *, repeats: bool) -> np.ndarray:
    """The law of the token after a node, by the engine's own residuals, over every drawn order."""
    emitted = np.zeros_like(target)
    for drawn in itertools.product(range(len(draft)), repeat=count):
        laws, chance, law = list[np.ndarray](), 1.0, draft.copy()
        for token in drawn:
            laws.append(law)
            chance *= law[token]
            if not repeats and chance:
                law = np.where(np.arange(len(law)) == token, 0.0, law)
                law = law / law.sum() if law.sum() else law
        if not chance:
            continue
        proposal = Proposal(
            torch.tensor(drawn), torch.tensor(np.array(laws)), None, 1, (-1,) * count
        )
        probs = torch.tensor(np.vstack([target] * (count + 1)))
        walk = sibling_code._Walk(proposal, probs, torch.zeros(count))
        left = probs[0]
        for child, token in enumerate(drawn):
            after = walk._left(child, left)
            stands = min(1.0, walk.target_probs[child] / walk.draft_probs[child])
            emitted[token] += chance * stands
            chance, left = chance * (1.0 - stands), after
        emitted += chance * left.numpy()
    return emitted


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_siblings_emit_the_targets_law(seed: int) -> None:
    draft, target = (np.asarray(each(())) for each in both(seed, 5, 1))
    for repeats in (True, False):
        most = 3 if repeats else min(3, int((draft > 0).sum()))
        found = siblings_law(draft, target, most, repeats=repeats)
        assert np.abs(found - target).max() < ROUNDING


@settings(max_examples=50, deadline=None)
@given(seeds, sizes)
def test_the_chance_that_shared_noise_agrees(seed: int, size: tuple[int, int]) -> None:
    draft, target = (np.asarray(each(())) for each in both(seed, size[0], 1))
    found = float(SharedNoise().expected(torch.tensor(draft)[None], torch.tensor(target)[None]))
    assert found == pytest.approx(coupled_acceptance(draft, target), abs=ROUNDING)
    assert found >= coupled_floor(draft, target) - ROUNDING


def first_tokens(way: str, count: int) -> np.ndarray:
    """Cells of the first tokens of so many runs of the whole loop."""
    cells = []
    for seed in range(count):
        config = RunConfig(
            temperature=1.0, max_new_tokens=DEPTH, ignore_eos=True, record=False, seed=seed,
            **WAYS[way],
        )  # fmt: skip
        run = speculate(tiny_pair(), PROMPT, config)
        text = [token for entry in run for token in entry.emitted]
        cells.append(sum(t * VOCABULARY ** (DEPTH - 1 - i) for i, t in enumerate(text)))
    return np.array(cells)


@pytest.mark.parametrize("way", WAYS)
def test_the_whole_loop_writes_the_targets_law(way: str) -> None:
    assert p_value(first_tokens(way, RUNS), exact_law("plain")) > ENOUGH


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
def test_the_whole_loop_writes_the_targets_law_in_many_runs(way: str) -> None:
    assert p_value(first_tokens(way, 10 * RUNS), exact_law("plain")) > ENOUGH


def test_a_residual_of_another_law_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Siblings that are drawn without replacement and judged as if with."""
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
    assert p_value(first_tokens("drafts that differ", 2 * RUNS), exact_law("plain")) < ENOUGH


def test_a_block_that_keeps_only_unbroken_coins_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_code, "coins_of", lambda weights, totals: [1.0 for _ in weights[1:]])
    assert p_value(first_tokens("block", RUNS), exact_law("plain")) < ENOUGH


def test_noise_is_of_the_place_and_exponential() -> None:
    noise = Noise(7, 1000, torch.device("cpu"))
    ahead = noise.rows(3, 4)
    assert torch.equal(noise.rows(5, 2), ahead[2:])
    assert torch.equal(Noise(7, 1000, torch.device("cpu")).rows(6, 1)[0], ahead[3])
    assert float(ahead.mean()) == pytest.approx(1.0, abs=0.06)
    assert float((ahead > 1.0).double().mean()) == pytest.approx(np.exp(-1), abs=0.04)
