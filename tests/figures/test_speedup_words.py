"""The sentences about the speedup: its interval, why it is slower, and contradictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specviz.figures.metrics import Metrics, metrics
from specviz.figures.speedup_words import (
    contradiction_warning,
    headline,
    shown_speedup,
    speedup_sentence,
    timing_sentence,
    verdict_words,
)
from specviz.record.trace import Conditions, Trace
from tests.changed_metrics import with_costs, with_tau, with_timing
from tests.paper_trace import paper_trace


@pytest.fixture
def figures() -> Metrics:
    return metrics(paper_trace())


def said(figures: Metrics, trace: Trace | None = None) -> str:
    """Return the verdict, and why its interval is wide."""
    run = trace or paper_trace()
    return " ".join([speedup_sentence(figures, run), timing_sentence(figures, run)]).rstrip()


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
def test_noise_widens_the_verdict_and_never_withholds_it(
    figures: Metrics, numbers: tuple[float, float, float], sentence: str
) -> None:
    assert said(with_timing(figures, *numbers)) == sentence


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((1.43, 1.36, 1.5), ("1.43× faster, same distribution", "1.36 to 1.50×")),
        ((1.9, 1.2, 3.0), ("1.20 to 3.00× faster, same distribution", "")),
        ((1.0, 0.97, 1.03), ("As fast as the target alone, same distribution", "0.97 to 1.03×")),
        ((1.1, 0.9, 1.3), ("Too close to call", "0.90 to 1.30×")),
        ((0.8, 0.75, 0.85), ("Slower: 0.80× the speed, same distribution", "0.75 to 0.85×")),
        ((1.0, 0.1, 9.0), ("Speedup unknown: timing too noisy", "")),
    ],
)
def test_the_headline_is_the_verdict_in_a_few_words(
    figures: Metrics, numbers: tuple[float, float, float], words: tuple[str, str]
) -> None:
    assert headline(with_timing(figures, *numbers), paper_trace()) == words


def test_the_headline_says_what_happens_to_the_output(figures: Metrics) -> None:
    faster, run = with_timing(figures, 1.43, 1.36, 1.5), paper_trace()
    greedy = replace(run, config=replace(run.config, temperature=0.0))
    lossy = replace(run, config=replace(run.config, rule="over-accept", epsilon=0.2))
    assert headline(faster, greedy)[0].endswith("same text")
    assert headline(faster, lossy)[0].endswith("changed distribution")
    assert headline(figures, replace(run, baseline=None)) == ("Speedup not measured", "")


def test_reports_a_missing_speedup_or_interval() -> None:
    alone = paper_trace(baseline=None)
    assert said(metrics(alone), alone) == "The target alone was not measured."
    once = with_timing(metrics(paper_trace()), 1.74, None, None)
    assert said(once).startswith("1.74 times as fast as the target alone (timed once, ")


def test_so_far_and_when_time_ran_out(figures: Metrics) -> None:
    known = with_timing(figures, 1.43, 1.36, 1.5)
    short = with_timing(figures, 1.43, 1.36, 1.5, pairs=9, needed=30)
    live = speedup_sentence(short, paper_trace(), so_far=True)
    assert live == f"1.43 times as fast as the target alone (1.36 to 1.50, {HERE}, so far)."
    too_few = "too few for an interval of ± 5.0 %."
    assert "only 9 timed slices" in said(short)
    assert said(short).endswith(too_few)
    assert said(with_timing(figures, 1.43, 1.36, 1.5, pairs=9, needed=None)).endswith(too_few)
    assert too_few not in said(known)


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ((0.01, 2255.58), "Whether the run is faster than the target alone is unknown"),
        ((1.5, 8.0), "Faster than the target alone, by an unknown factor"),
        ((0.1, 0.7), "Slower than the target alone, by an unknown factor"),
    ],
)
def test_ends_too_far_apart_are_not_shown(
    figures: Metrics, ends: tuple[float, float], verdict: str
) -> None:
    wide = with_timing(figures, 1.2, *ends)
    assert said(wide) == f"{verdict}: timing too noisy ({HERE})."
    live = speedup_sentence(wide, paper_trace(), so_far=True)
    assert live.startswith("The target alone is still being timed")
    assert "times" not in live


def test_in_a_table_a_wide_interval_replaces_the_value() -> None:
    assert shown_speedup(1.43, 1.36, 1.5) == "1.43× (1.36–1.50)"
    assert shown_speedup(1.9, 1.2, 3.0) == "1.20–3.00×"
    assert shown_speedup(1.9, 0.08, 117.5) == "timing too noisy"
    assert shown_speedup(1.9, None, None) == "1.90×"


def test_a_close_call_names_what_disturbed_the_machine(figures: Metrics) -> None:
    close_call = with_timing(figures, 1.1, 0.9, 1.3)
    baseline = paper_trace().baseline
    assert baseline is not None

    def cause(**seen: Any) -> str:
        disturbed = replace(baseline, conditions=Conditions(**seen))
        return said(close_call, paper_trace(baseline=disturbed)).partition("(on this text). ")[2]

    assert cause(others=0.84, clock=0.5, on_battery=True) == (
        "During timing, other processes used 84.0 % of the processors' time and the processor ran "
        "at 50.0 % of its maximum clock and the machine ran on battery."
    )
    assert cause(others=0.02, clock=0.99, on_battery=False) == ""
    busy = replace(baseline, conditions=Conditions(others=0.84))
    assert "84.0 %" in said(with_timing(figures, 1.9, 1.2, 3.0), paper_trace(baseline=busy))
    assert "84.0 %" not in said(with_timing(figures, 1.43, 1.36, 1.5), paper_trace(baseline=busy))


def test_warns_if_speedup_and_step_costs_contradict(figures: Metrics) -> None:
    unsure = with_tau(with_costs(figures, gamma=3, c=0.2, v=1.4), 2.6)
    sure = with_costs(unsure, gamma=3, c=0.2, v=1.4, error=0.05)
    assert sure.speedup_accounted == pytest.approx(1.3)
    assert sure.speedup_limit == pytest.approx(2.0)
    full = with_tau(sure, 4.0)

    def warning(figures: Metrics, speed: float, low: float, high: float) -> str:
        return contradiction_warning(with_timing(figures, speed, low, high))

    assert warning(full, 2.05, 2.0, 2.1) == ""
    assert warning(full, 2.3, 2.2, 2.4).startswith(
        "The measured speedup is 2.20 to 2.40 times, but no more than 2.10 times is possible at "
        "these step costs"
    )
    assert warning(full, 2.3, 1.9, 2.8) == ""
    assert "contradicts the measured speedup of 0.70 to 0.90 times" in warning(sure, 0.8, 0.7, 0.9)
    assert warning(sure, 1.2, 1.1, 1.24) == ""  # the intervals overlap
    assert warning(sure, 1.12, 1.08, 1.17) == ""  # hardly apart: a round has overhead
    assert "contradicts the measured speedup of 0.85 to 1.05 times" in warning(
        sure, 0.95, 0.85, 1.05
    )
    assert "1.24 to 1.37 times, which contradicts" in warning(sure, 1.6, 1.55, 1.65)
    assert warning(unsure, 2.3, 2.2, 2.4) == ""


def test_explains_why_it_is_slower(figures: Metrics) -> None:
    timed = with_tau(with_timing(figures, 0.82, 0.75, 0.9), 1.9)
    slow = with_costs(timed, gamma=8, c=0.15, v=1.05)
    start = f"Slower than the target alone: 0.82 times its speed (0.75 to 0.90, {HERE})"
    assert said(slow) == (
        f"{start}, because drafting 8 tokens costs 1.20 target steps and a round gives only 1.90 "
        "tokens."
    )
    dearer = with_costs(timed, gamma=8, c=0.15, v=1.4)
    assert "1.20 target steps, verifying 9 costs 1.40, and a round" in said(dearer)
    copied = with_costs(timed, gamma=8, c=0.0, v=2.3)
    assert "because verifying 9 tokens costs 2.30 target steps and" in said(copied)
    assert said(with_tau(slow, 3.0)).endswith("work outside the step costs cancelled the gain.")
    uncosted = with_costs(timed, gamma=8, c=None, v=1.05)
    assert said(uncosted) == f"{start}."
    wide = with_timing(uncosted, 0.7, 0.5, 0.9)
    assert said(wide) == f"Slower than the target alone: 0.50 to 0.90 times its speed ({HERE})."


def test_verdicts_between_lanes_hide_ends_too_far_apart() -> None:
    verdict = verdict_words(3.0, 1e-6, 4e5, "over 2 seeds", "lossless")
    assert verdict.startswith("Unknown whether faster or slower than lossless on this machine")
    assert "0.50 and 3.00" in verdict_words(1.2, 0.5, 3.0, "over 2 seeds", "lossless")
