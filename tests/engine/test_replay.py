"""Every candidate, verdict and extra token follows from the seed and can be replayed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specviz.engine.decoding.sampling import draft_slot, keyed_uniforms, verdict_slot
from specviz.record.trace import Round, RunConfig
from tests.engine import oracle
from tests.engine.playing import config, llama_pair, play
from tests.engine.spies import watch


def test_a_slot_has_the_same_uniform_whatever_gamma() -> None:
    for seed, index in ((0, 0), (7, 3), (2**63 - 1, 10_000)):
        longest = keyed_uniforms(seed, index, 64)
        for count in (0, 1, 2, 5):
            assert keyed_uniforms(seed, index, count).tolist() == longest[: 2 * count + 1].tolist()


SAMPLINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 12},
    {"temperature": 1.3, "top_p": 0.8},
    {"temperature": 0.0},
    {"temperature": 1.0, "rule": "over-accept", "epsilon": 0.05},
    {"temperature": 1.0, "rule": "over-accept", "epsilon": 0.05, "residual": "target"},
    {"temperature": 1.0, "rule": "over-accept", "epsilon": 0.05, "residual": "draft"},
    {"temperature": 0.2, "drafter": "prompt-lookup"},
)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_every_verdict_and_draw_can_be_replayed(
    sampling: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = watch(monkeypatch)
    settings = config(seed=5, gamma=3, max_new_tokens=160, **sampling)
    rounds = play(llama_pair("lean"), settings)
    assert len(rounds) > 40
    for entry, (proposal, _, result) in zip(rounds, notes.passes, strict=True):
        replay(entry, settings, proposal.probs.numpy(), result.probs.numpy())
    seen = {c.verdict for entry in rounds for c in entry.candidates}
    assert seen == {"accepted", "rejected", "discarded"}


def replay(entry: Round, settings: RunConfig, draft: np.ndarray, target: np.ndarray) -> None:
    uniforms = keyed_uniforms(settings.seed, entry.index, settings.gamma).tolist()
    candidates = entry.candidates
    for position, candidate in enumerate(candidates):
        own, theirs = draft[position], target[position]
        assert candidate.uniform == uniforms[verdict_slot(position)]
        assert candidate.draft_prob == own[candidate.token_id] > 0.0
        assert candidate.target_prob == theirs[candidate.token_id]
        shared = np.minimum(own.astype(float), theirs.astype(float) + settings.epsilon).sum()
        assert candidate.expected_acceptance == pytest.approx(shared, abs=1e-5)
        if settings.drafter == "model":
            drawn = oracle.draw(own.astype(float).tolist(), uniforms[draft_slot(position)])
            assert candidate.token_id == drawn
    if entry.cut is None:
        _replay_verdicts(entry, settings)
        _replay_extra(entry, settings, draft, target, uniforms[0])


def _replay_verdicts(entry: Round, settings: RunConfig) -> None:
    epsilon = settings.epsilon if settings.rule == "over-accept" else 0.0
    accepted = True
    for candidate in entry.candidates:
        accepts = candidate.uniform * candidate.draft_prob < candidate.target_prob + epsilon
        expected = ("accepted" if accepts else "rejected") if accepted else "discarded"
        assert candidate.verdict == expected
        accepted = accepted and accepts


def _replay_extra(
    entry: Round, settings: RunConfig, draft: np.ndarray, target: np.ndarray, uniform: float
) -> None:
    extra, at = entry.extra, entry.num_accepted
    assert extra is not None
    assert extra.uniform == uniform
    assert extra.target_prob == target[at][extra.token_id]
    if at == entry.num_drafted:
        assert extra.kind == "bonus"
        assert extra.draft_prob is None
        distribution = target[at].astype(float)
    else:
        assert extra.kind == "recovered"
        assert extra.draft_prob == draft[at][extra.token_id]
        source = settings.residual if settings.rule == "over-accept" else "leftover"
        distribution = oracle.recovery(draft[at].astype(float), target[at].astype(float), source)
    assert extra.token_id == oracle.draw(distribution.tolist(), uniform)
