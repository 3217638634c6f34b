"""A trace as the player takes it: plain values that JSON can hold. See assets/player/README.md.

Probabilities that decide a verdict keep every digit, so that it can be replayed by hand;
those of the alternatives, which are only drawn, are rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from specviz.trace import Alternatives, Baseline, Candidate, Extra, Insight, Round, Trace

Plain = dict[str, Any]


def round_items(rounds: Sequence[Round]) -> list[Plain]:
    return [_round(entry) for entry in rounds]


def lanes(trace: Trace, *, noisy: bool) -> Plain | None:
    """Both lanes as they were timed; None where the target alone was not."""
    target = target_seconds(trace)
    if target is None:
        return None
    return {"noisy": noisy, "speculative": lane_parts(trace), "target": target}


def lane_parts(trace: Trace) -> list[Plain]:
    """The seconds of each round, in its parts.

    Their lengths are the mean of the timed repeats, where there are some; how a round divides
    into its parts is known from the run that was watched.
    """
    repeats = _mean_block(trace.baseline, "speculative") if trace.baseline else None
    totals = repeats or [entry.times.decode for entry in trace.rounds]
    return [_parts(r, total) for r, total in zip(trace.rounds, totals, strict=True)]


def target_seconds(trace: Trace) -> list[float] | None:
    """The seconds of each token of the target alone; None where it was not timed."""
    target = _mean_block(trace.baseline, "target") if trace.baseline else None
    return None if target is None else [_significant(seconds) for seconds in target]


def _mean_block(baseline: Baseline, lane: str) -> list[float] | None:
    blocks = [block.seconds for block in baseline.blocks if block.lane == lane]
    return [fmean(each) for each in zip(*blocks, strict=True)] if blocks else None


def _parts(entry: Round, total: float) -> Plain:
    times = entry.times
    scale = total / times.decode if times.decode else 1.0
    parts = {"draft": times.draft, "verify": times.verify, "other": times.other}
    return {name: _significant(scale * seconds) for name, seconds in parts.items()}


def _round(entry: Round) -> Plain:
    times = entry.times
    return {
        "candidates": [_candidate(each) for each in entry.candidates],
        "extra": _extra(entry.extra) if entry.extra else None,
        "cut": entry.cut,
        "times": {
            "draft": _significant(times.draft),
            "verify": _significant(times.verify),
            "other": _significant(times.other),
        },
    }


def _candidate(each: Candidate) -> Plain:
    return {
        "text": each.text,
        "verdict": each.verdict,
        "draft": each.draft_prob,
        "target": each.target_prob,
        "uniform": each.uniform,
        "expected": _significant(each.expected_acceptance),
        "insight": _insight(each.insight) if each.insight else None,
    }


def _extra(extra: Extra) -> Plain:
    return {
        "text": extra.text,
        "kind": extra.kind,
        "target": extra.target_prob,
        "draft": extra.draft_prob,
        "uniform": extra.uniform,
    }


def _insight(insight: Insight) -> Plain:
    return {
        "draft": insight.draft_prob,
        "target": insight.target_prob,
        "draft_entropy": _significant(insight.draft_entropy),
        "target_entropy": _significant(insight.target_entropy),
        "draft_top": _alternatives(insight.draft_top),
        "target_top": _alternatives(insight.target_top),
        "residual_top": _alternatives(insight.residual_top),
    }


def _alternatives(alternatives: Alternatives) -> list[list[str | float]]:
    pairs = zip(alternatives.texts, alternatives.probs, strict=True)
    return [[text, _significant(prob)] for text, prob in pairs]


def _significant(value: float) -> float:
    return float(f"{value:.4g}")
