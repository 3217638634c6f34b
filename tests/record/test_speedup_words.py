"""The speedup in words: faster, as fast, slower and why, or no verdict at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.record.metrics import Metrics, metrics
from specviz.record.speedup_words import speedup_sentence
from specviz.record.trace import Trace
from tests.paper_trace import paper_trace


@pytest.fixture
def figures() -> Metrics:
    return metrics(paper_trace())


def said(figures: Metrics, trace: Trace | None = None) -> str:
    return speedup_sentence(figures, trace or paper_trace())


def test_sentences(figures: Metrics) -> None:
    assert said(figures) == "1.74 times as fast as the target alone."
    assert said(replace(figures, speedup_observed=1.04)) == (
        "1.04 times as fast as the target alone."
    )
    assert said(replace(figures, speedup_observed=1.004)) == "As fast as the target alone."
    noisy = replace(figures, noisy=True, drift=0.09)
    assert said(noisy) == ("Noisy machine: blocks of the same work drift by 9.0 %, so no verdict.")
    assert said(replace(figures, noisy=None, drift=None)) == (
        "A lane was timed only once, so no verdict."
    )
    alone = paper_trace(baseline=None)
    assert said(metrics(alone), alone) == "The target alone was not measured."


def test_sentences_when_slower(figures: Metrics) -> None:
    slow = replace(figures, speedup_observed=0.82, gamma=8, c=0.15, v=1.05, tau=1.9)
    start = "Slower than the target alone (0.82 times)"
    assert said(slow) == (
        f"{start}, because drafting 8 tokens costs 1.20 target steps "
        "and only 1.90 tokens come out of a round."
    )
    assert said(replace(slow, v=1.4)) == (
        f"{start}, because drafting 8 tokens costs 1.20 target steps, verifying 9 costs 1.40, "
        "and only 1.90 tokens come out of a round."
    )
    assert said(replace(slow, c=0.0, v=2.3)) == (
        f"{start}, because verifying 9 tokens costs 2.30 target steps "
        "and only 1.90 tokens come out of a round."
    )
    assert said(replace(slow, tau=3.0)) == (
        f"{start}, though by their step costs the two models should gain: the rest is overhead."
    )
    assert said(replace(slow, c=None)) == f"{start}."
