"""Sampled texts have the target's distribution, and the test can fail."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from specviz.engine import Pair, speculate
from specviz.engine.decoding.sampling import Sampler
from specviz.engine.decoding.verify import Lossless, OverAccept, Rule, verify
from specviz.record.pairs import GRAPHED
from specviz.record.trace import RunConfig
from tests.engine import oracle
from tests.engine.models import noisy_copy, pair_of, tiny_model

VOCABULARY = 7
DEPTH = 3  # tokens of the joint distribution
PROMPT = (3, 1, 4, 1, 5)
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"temperature": 1.0},
    "top-k": {"temperature": 0.7, "top_k": 3},
    "top-p": {"temperature": 1.0, "top_p": 0.8},
}
GAMMAS = (1, 3, 5)
SEEDS = (0, 1, 2)
ENOUGH = 1e-3


@cache
def tiny_pair(step: str = "lean") -> Pair:
    """One layer of width 16; the draft is right more often than not."""
    target = tiny_model(
        "llama",
        vocabulary=VOCABULARY,
        sigma=0.35,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    return pair_of(target, noisy_copy(target, 0.25), step=step)


@cache
def logits_table(side: str) -> np.ndarray:
    """Logits after the prompt and every text of up to DEPTH tokens, [num_texts, vocabulary].

    Texts are ordered by length, then as numbers in base VOCABULARY.
    """
    pair = tiny_pair()
    model: Any = pair.target if side == "target" else pair.draft
    rows = []
    for length in range(DEPTH + 1):
        texts = [PROMPT + text for text in product(range(VOCABULARY), repeat=length)]
        with torch.inference_mode():
            rows.append(model(torch.tensor(texts)).logits[:, -1].numpy())
    return np.concatenate(rows)


def row_of(texts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The table's row for each text; longer texts use their last DEPTH tokens."""
    kept = np.minimum(lengths, DEPTH)
    code = np.zeros_like(lengths)
    for back in range(DEPTH, 0, -1):
        token = np.take_along_axis(texts, np.maximum(lengths - back, 0)[:, None], 1)[:, 0]
        code = np.where(kept >= back, code * VOCABULARY + token, code)
    return (VOCABULARY**kept - 1) // (VOCABULARY - 1) + code


@cache
def exact_distribution(setting: str) -> np.ndarray:
    """Joint distribution `[vocabulary ** DEPTH]` of the first tokens, by the oracle."""
    chosen = {"top_k": 0, "top_p": 1.0} | SETTINGS[setting]
    rows = [oracle.processed(row, **chosen) for row in logits_table("target")]

    def conditional(prefix: oracle.Prefix) -> np.ndarray:
        text = np.array([[*prefix, 0, 0, 0]])
        return rows[int(row_of(text, np.array([len(prefix)]))[0])]

    return np.array(list(oracle.target_joint(conditional, DEPTH, VOCABULARY).values()))


def p_value(cells: np.ndarray, distribution: np.ndarray) -> float:
    """Chi-square test against a distribution; rare cells are pooled, impossible ones give 0."""
    counts = np.bincount(cells, minlength=len(distribution))
    expected = distribution * len(cells)
    if counts[distribution == 0.0].any():
        return 0.0
    common = expected >= 5
    seen = np.append(counts[common], counts[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    if wanted[-1] < 5:  # too small a pool: join it to the smallest testable cell
        smallest = wanted[:-1].argmin()
        seen[smallest] += seen[-1]
        wanted[smallest] += wanted[-1]
        seen, wanted = seen[:-1], wanted[:-1]
    return float(stats.chisquare(seen, wanted * len(cells) / wanted.sum()).pvalue)


# -- many draws at once through the engine's verify


def sampled_cells(setting: str, gamma: int, seed: int, count: int, rule: Rule) -> np.ndarray:
    """Cells of ``count`` texts decoded in parallel up to DEPTH tokens."""
    sampler = Sampler(RunConfig(**SETTINGS[setting]))
    draft = sampler.probs(torch.from_numpy(logits_table("draft")))
    target = sampler.probs(torch.from_numpy(logits_table("target")))
    rng = np.random.default_rng((seed, gamma))
    texts = np.zeros((count, DEPTH + gamma + 1), dtype=np.int64)
    lengths = np.zeros(count, dtype=np.int64)
    while (going := np.flatnonzero(lengths < DEPTH)).size:
        grown, ends = _play_round(
            texts[going], lengths[going], draft, target, gamma, rng, sampler, rule
        )
        texts[going], lengths[going] = grown, ends
    return texts[:, :DEPTH] @ VOCABULARY ** np.arange(DEPTH - 1, -1, -1)


def _play_round(
    texts: np.ndarray,
    lengths: np.ndarray,
    draft: torch.Tensor,
    target: torch.Tensor,
    gamma: int,
    rng: np.random.Generator,
    sampler: Sampler,
    rule: Rule,
) -> tuple[np.ndarray, np.ndarray]:
    texts, count = texts.copy(), len(texts)
    everyone = np.arange(count)
    uniforms = rng.integers(2**24, size=(2 * gamma + 1, count)) * 2.0**-24
    drawn = torch.from_numpy(uniforms.astype(np.float32))
    draft_rows, target_rows = [], []
    for position in range(gamma):
        row = row_of(texts, lengths + position)
        draft_rows.append(draft[row])
        target_rows.append(target[row])
        texts[everyone, lengths + position] = sampler.draw(draft[row], drawn[position]).numpy()
    target_rows.append(target[row_of(texts, lengths + gamma)])
    candidates = texts[everyone[:, None], lengths[:, None] + np.arange(gamma)]
    found = verify(
        rule,
        sampler,
        torch.from_numpy(candidates),
        torch.stack(draft_rows, 1),
        torch.stack(target_rows, 1),
        drawn[gamma : 2 * gamma].T,
        drawn[2 * gamma],
    )
    accepted = found.num_accepted.numpy()
    texts[everyone, lengths + accepted] = found.extra.numpy()
    return texts, lengths + accepted + 1


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_many_verified_texts_have_the_targets_distribution(
    setting: str, gamma: int, seed: int
) -> None:
    cells = sampled_cells(setting, gamma, seed, 50_000, Lossless())
    assert p_value(cells, exact_distribution(setting)) > ENOUGH


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_detects_a_rule_that_samples_the_target_after_a_rejection(setting: str, gamma: int) -> None:
    broken = OverAccept(0.0, "target")
    cells = sampled_cells(setting, gamma, 0, 50_000, broken)
    assert p_value(cells, exact_distribution(setting)) < 1e-6


# -- the whole loop


def looped_cells(
    setting: str, gamma: int, seed: int, count: int, step: str = "lean", **changes: Any
) -> np.ndarray:
    """Cells of separate runs with different seeds."""
    chosen: dict[str, Any] = {"gamma": gamma, "max_new_tokens": gamma + DEPTH, "ignore_eos": True}
    chosen |= SETTINGS[setting] | {"record": False} | changes
    texts = np.empty((count, DEPTH), dtype=np.int64)
    for index in range(count):
        run = speculate(tiny_pair(step), PROMPT, RunConfig(**chosen, seed=seed * 1_000_000 + index))
        while len(run.emitted) < DEPTH:
            next(run)
        texts[index] = run.emitted[:DEPTH]
    return texts @ VOCABULARY ** np.arange(DEPTH - 1, -1, -1)


TEXTS = 700  # enough to detect the broken rule below, and each bug of test_bugs.py
# One combination is in `make test`, all others are thorough: test_reference compares tokens of the
# loop with those of another implementation, and the tests above verify many texts.
OFTEN = ("top-k", 3, 1)
LOOPS = [
    pytest.param(*each, TEXTS)
    if each == OFTEN
    else pytest.param(*each, 2 * TEXTS, marks=pytest.mark.thorough)
    for each in product(SETTINGS, GAMMAS, SEEDS)
]


@pytest.mark.parametrize(("setting", "gamma", "seed", "texts"), LOOPS)
def test_texts_of_the_loop_have_the_targets_distribution(
    setting: str, gamma: int, seed: int, texts: int
) -> None:
    cells = looped_cells(setting, gamma, seed, texts)
    assert p_value(cells, exact_distribution(setting)) > ENOUGH


@pytest.mark.thorough  # test_graphed_rounds compares them with rounds of the loop
@pytest.mark.parametrize(("setting", "gamma"), [("top-k", 3), ("plain", 5), ("top-p", 1)])
def test_device_rounds_have_the_targets_distribution(setting: str, gamma: int) -> None:
    cells = looped_cells(setting, gamma, 3, 1_000, GRAPHED)
    assert p_value(cells, exact_distribution(setting)) > ENOUGH


def test_prompt_lookup_has_the_targets_distribution() -> None:
    cells = looped_cells("plain", 3, 0, TEXTS, drafter="prompt-lookup")
    assert p_value(cells, exact_distribution("plain")) > ENOUGH


@pytest.mark.thorough
def test_detects_a_loop_that_samples_the_target_after_a_rejection() -> None:
    lossy: dict[str, Any] = {"rule": "over-accept", "epsilon": 0.0, "residual": "target"}
    cells = looped_cells("plain", 3, 0, TEXTS, **lossy)
    assert p_value(cells, exact_distribution("plain")) < 1e-6


# -- assumptions of these tests


def test_the_pair_accepts_and_rejects_candidates() -> None:
    for chosen in SETTINGS.values():
        sampler = Sampler(RunConfig(**chosen))
        distributions = [
            sampler.probs(torch.from_numpy(logits_table(s))) for s in ("draft", "target")
        ]
        shared = torch.minimum(*distributions).sum(-1)
        assert 0.4 < float(shared[:57].mean()) < 0.9


def test_p_values_are_uniform_for_true_samples() -> None:
    """Samples of another distribution give tiny p-values."""
    distribution = exact_distribution("top-p")
    rng = np.random.default_rng(0)
    values = [
        p_value(rng.choice(len(distribution), 5_000, p=distribution), distribution)
        for _ in range(200)
    ]
    assert stats.kstest(values, "uniform").pvalue > 1e-3
    other = np.where(distribution > 0, np.sqrt(distribution), 0.0)
    assert p_value(rng.choice(len(distribution), 5_000, p=other / other.sum()), distribution) < 1e-6
    impossible = int(np.flatnonzero(distribution == 0.0)[0])
    assert (
        p_value(
            np.append(rng.choice(len(distribution), 5_000, p=distribution), impossible),
            distribution,
        )
        == 0.0
    )
