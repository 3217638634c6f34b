"""Scores along a text, against a numpy oracle, recorded values and counted rejections."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from specviz.engine import Pair, decode_plainly, load_pair
from specviz.engine.decoding import scoring
from specviz.engine.decoding.scoring import score_text
from specviz.engine.model.chat import encode_prompt
from specviz.errors import PairError, PromptError
from specviz.record.pairs import PairSpec
from specviz.record.trace import Candidate, RunConfig
from tests.engine.oracle import processed
from tests.engine.playing import PROMPT, STEPS, config, llama_pair, play, tokens
from tests.oracles.rejections import rejections_along

TEXT = (12, 90, 33, 7, 250, 18, 18, 64, 301)
CONFIGS = (
    config(temperature=0.5),
    config(temperature=1.0, top_k=40),
    config(temperature=1.3, top_p=0.8),
    config(temperature=0.9, top_k=12, top_p=0.95),
    config(temperature=0.0),
)


def logits(pair: Pair, model: str, text: tuple[int, ...]) -> np.ndarray:
    """Logits at every token of the text, from a single feed."""
    ids = torch.tensor([*PROMPT, *text])
    with torch.inference_mode():
        step = getattr(pair, f"{model}_step")(len(ids))
        return step.feed(ids, len(text) + 1)[:-1].numpy().astype(np.float64)


def distribution_of(row: np.ndarray, settings: RunConfig) -> np.ndarray:
    if settings.greedy:
        return np.eye(len(row))[row.argmax()]
    return processed(row, settings.temperature, settings.top_k, settings.top_p)


@pytest.mark.parametrize("step", STEPS)
def test_scores_match_a_numpy_oracle(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In chunks of two rows, so that several are joined."""
    pair = llama_pair(step)
    monkeypatch.setattr(scoring, "_MOST_ENTRIES", 2 * pair.vocabulary)
    found = score_text(pair, PROMPT, TEXT, CONFIGS)
    drafts, targets = logits(pair, "draft", TEXT), logits(pair, "target", TEXT)
    for settings, scores in zip(CONFIGS, found, strict=True):
        for at, token in enumerate(TEXT):
            draft, target = (
                distribution_of(drafts[at], settings),
                distribution_of(targets[at], settings),
            )
            odds = min(1.0, draft[token] / target[token]) if target[token] else 0.0
            assert scores.odds[at] == pytest.approx(odds, abs=1e-4)
            assert scores.overlaps[at] == pytest.approx(np.minimum(draft, target).sum(), abs=1e-4)
            assert scores.text_probs[at] == pytest.approx(target[token], abs=1e-4)
            for entropy, distribution in (
                (scores.draft_entropies[at], draft),
                (scores.target_entropies[at], target),
            ):
                seen = distribution[distribution > 0]
                assert entropy == pytest.approx(-(seen * np.log(seen)).sum(), abs=1e-3)
            assert scores.matches[at] == (drafts[at].argmax() == token)
            assert scores.agrees[at] == (drafts[at].argmax() == targets[at].argmax())


def test_an_excluded_token_has_odds_0() -> None:
    pair = llama_pair("lean")
    usual = config(max_new_tokens=20, temperature=0.0)
    text = tuple(decode_plainly(pair, PROMPT, usual))
    (whole,) = score_text(pair, PROMPT, text, [usual])
    assert whole.impossible_at is None
    other = (*text[:7], (text[7] + 1) % pair.vocabulary, *text[8:])
    greedy, free = score_text(pair, PROMPT, other, [usual, config(temperature=1.0)])
    assert (greedy.impossible_at, greedy.odds[7]) == (7, 0.0)
    assert free.impossible_at is None


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_scores_match_the_recorded_values(temperature: float) -> None:
    """At tested positions that stayed in the text, and at rejections before the draw."""
    pair, settings = llama_pair("lean"), config(temperature=temperature, gamma=4)
    rounds = play(pair, settings)
    (scores,) = score_text(pair, PROMPT, tokens(rounds), [settings])
    compared = accepted = 0
    for entry in rounds:
        place = entry.context_length - len(PROMPT)
        for at, each in enumerate(entry.candidates):
            if each.tested and place + at < len(scores.odds):
                assert scores.overlaps[place + at] == pytest.approx(
                    each.expected_acceptance, abs=1e-4
                )
                compared += 1
                if each.verdict == "accepted":
                    accepted += 1
                    assert scores.odds[place + at] == pytest.approx(of_text(each), abs=1e-4)
                    assert scores.text_probs[place + at] == pytest.approx(
                        each.target_prob, abs=1e-4
                    )
    assert compared > 40
    assert accepted > 20


def of_text(candidate: Candidate) -> float:
    """Odds given that the token is in the text: draft over target, not target over draft."""
    return min(1.0, candidate.draft_prob / candidate.target_prob)


@pytest.mark.thorough
def test_fifty_runs_have_the_expected_rejections() -> None:
    """On the embedded pair; given the texts, only verdicts vary, with known variance."""
    pair = load_pair(PairSpec(name="tinystories", threads=1))
    settings = RunConfig(gamma=5, temperature=0.8, max_new_tokens=40, record=False)
    prompt = encode_prompt(pair, "Once upon a time, there was a little", chat=False)
    observed, mean, variance = 0, 0.0, 0.0
    for seed in range(50):
        run = replace(settings, seed=seed)
        rounds = play(pair, run, tuple(prompt))
        observed += sum(each.extra_kind == "recovered" for each in rounds)
        (scores,) = score_text(pair, prompt, tokens(rounds), [run])
        of_text, spread = rejections_along(scores.odds, run.gamma)
        mean, variance = mean + of_text, variance + spread
    assert mean > 200
    assert abs(observed - mean) <= 2.58 * math.sqrt(variance)


def test_a_long_text_is_scored_quickly() -> None:
    """256 tokens of the embedded pair within half a second of one core's time."""
    pair = load_pair(PairSpec(name="tinystories", threads=1))
    settings = RunConfig(temperature=0.7, max_new_tokens=256, ignore_eos=True)
    prompt = encode_prompt(pair, "Once upon a time, there was a little", chat=False)
    text, took = tuple(decode_plainly(pair, prompt, settings)), list[float]()
    for _ in range(3):
        begun = time.process_time()
        score_text(pair, prompt, text, [settings])
        took.append(time.process_time() - begun)
    assert len(text) == 256
    assert min(took) < 0.5


def test_rejects_texts_that_cannot_be_scored() -> None:
    pair = replace(llama_pair("lean"), max_context=64)
    with pytest.raises(PromptError, match="no text"):
        score_text(pair, PROMPT, (), CONFIGS)
    longest = 64 - len(PROMPT)
    (scores,) = score_text(pair, PROMPT, (5,) * longest, CONFIGS[:1])
    assert len(scores.odds) == longest
    with pytest.raises(PromptError, match="context holds"):
        score_text(pair, PROMPT, (5,) * (longest + 1), CONFIGS[:1])
    with pytest.raises(PairError, match="no draft"):
        score_text(replace(pair, draft=None), PROMPT, TEXT, CONFIGS)


_LARGE = """
import resource, sys
from dataclasses import replace
import torch
from specviz.engine.decoding.scoring import score_text
from specviz.engine.model.chat import encode_prompt
from specviz.record.trace import RunConfig
from tests.engine.models import noisy_copy, pair_of, tiny_model
target = tiny_model("llama", vocabulary=150_000, max_position_embeddings=4096)
pair = pair_of(target, noisy_copy(target, 0.05))
configs = [RunConfig(temperature=0.1 * (1 + at)) for at in range(16)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
score_text(pair, [5] * 10, [7] * 2000, configs)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.thorough
def test_memory_is_bounded() -> None:
    """150,000 entries, 2,000 positions, 16 temperatures: within 2 GB."""
    run = [sys.executable, "-c", _LARGE]
    finished = subprocess.run(run, capture_output=True, text=True, check=True, timeout=3000)
    print(f"scoring took {float(finished.stdout):,.0f} MB")
    assert float(finished.stdout) < 2000
