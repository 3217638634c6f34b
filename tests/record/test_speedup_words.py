"""The speedup in words: as sure as its interval, slower and why, and alarms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specviz.record.metrics import Metrics, metrics
from specviz.record.speedup_words import (
    alarm,
    shown_speedup,
    speedup_sentence,
    timing_sentence,
    verdict_words,
)
from specviz.record.trace import Conditions, Trace
from tests.paper_trace import paper_trace


@pytest.fixture
def figures() -> Metrics:
    return metrics(paper_trace())


def said(figures: Metrics, trace: Trace | None = None) -> str:
    """The answer, and why it is no surer."""
    run = trace or paper_trace()
    return " ".join([speedup_sentence(figures, run), timing_sentence(figures, run)]).rstrip()


def ranged(figures: Metrics, speed: float, low: float, high: float, **more: Any) -> Metrics:
    return replace(
        figures, speedup_observed=speed, speedup_low=low, speedup_high=high,
        speedup_pairs=12, speedup_pairs_needed=12, **more,
    )  # fmt: skip


HERE = "on this text, on this machine"


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ((1.43, 1.36, 1.5), f"1.43 times as fast as the target alone (1.36 to 1.50, {HERE})."),
        (
            (1.9, 1.2, 3.0),
            f"1.20 to 3.00 times as fast as the target alone ({HERE}).",
        ),
        ((1.0, 0.97, 1.03), f"As fast as the target alone (0.97 to 1.03 times, {HERE})."),
        (
            (1.1, 0.9, 1.3),
            "Between 0.90 and 1.30 times the speed of the target alone: too close to call on this "
            "machine now (on this text).",
        ),
        ((1.02, 1.01, 1.03), f"As fast as the target alone (1.01 to 1.03 times, {HERE})."),
    ],
)
def test_noise_widens_an_answer_and_never_withholds_it(
    figures: Metrics, numbers: tuple[float, float, float], sentence: str
) -> None:
    assert said(ranged(figures, *numbers)) == sentence


def test_what_is_not_known_is_said() -> None:
    alone = paper_trace(baseline=None)
    assert said(metrics(alone), alone) == "The target alone was not measured."
    once = replace(metrics(paper_trace()), speedup_low=None, speedup_high=None)
    assert said(once) == (
        "1.74 times as fast as the target alone (timed once, so how sure that is cannot be said)."
    )


def test_so_far_and_when_the_time_was_over(figures: Metrics) -> None:
    known = ranged(figures, 1.43, 1.36, 1.5)
    short = replace(known, speedup_pairs=9, speedup_pairs_needed=30)
    live = speedup_sentence(short, paper_trace(), so_far=True)
    assert live == f"1.43 times as fast as the target alone (1.36 to 1.50, {HERE}, so far)."
    over = "The time for timing ran out before the interval was within ± 5.0 %: 9 slices."
    assert said(short).endswith(over)
    assert said(replace(short, speedup_pairs_needed=None)).endswith(over)
    assert over not in said(known)


@pytest.mark.parametrize(
    ("ends", "over"),
    [
        (
            (0.01, 2255.58),
            "Whether it is faster than the target alone is not known: the timing was",
        ),
        ((1.5, 8.0), "Faster than the target alone, but by how much the timing was"),
        ((0.1, 0.7), "Slower than the target alone, but by how much the timing was"),
    ],
)
def test_ends_that_say_nothing_are_not_written() -> None:
    words = verdict_words(3.0, 1e-6, 4e5, "over 2 seeds", "lossless")
    assert words.startswith("Faster or slower than lossless: too uncertain to say")
    assert "0.50 and 3.00" in verdict_words(1.2, 0.5, 3.0, "over 2 seeds", "lossless")
