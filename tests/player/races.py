"""Lanes made by hand whose times on one clock can be worked out on paper.

``thrifty`` ends 16 tokens after 0.28 s and has the target alone at 0.32 s; ``wasteful`` ends the
same number after 0.48 s. ``short`` stops after 8 tokens and 0.14 s.
"""

from __future__ import annotations

from typing import Any

from specviz.record.trace import RunConfig, Trace
from tests.traces import Passes, make_round, make_trace

THRIFTY, ALONE, WASTEFUL, SHORT = 0.28, 0.32, 0.48, 0.14


def thrifty(*, drift: float = 1.0, pace: float = 1.0, **fields: Any) -> Trace:
    rounds = [make_round("aaa", times=(0.02, 0.04, 0.01)) for _ in range(4)]
    blocks = ([0.02 * drift] * 16, [0.02 * (2 - drift)] * 16)
    baseline = Passes(target=blocks, speculative=([0.07 * pace] * 4,) * 2)
    return make_trace(rounds, config=RunConfig(gamma=3), baseline=baseline, **fields)


def wasteful(**fields: Any) -> Trace:
    rounds = [make_round("rdd", times=(0.01, 0.015, 0.005)) for _ in range(16)]
    return make_trace(rounds, config=RunConfig(gamma=3, seed=1), **fields)


def short() -> Trace:
    rounds = [make_round("aaa", times=(0.02, 0.04, 0.01)) for _ in range(2)]
    return make_trace(rounds, config=RunConfig(gamma=3, seed=2))


def tokens_at(trace: Trace, second: float) -> int:
    """Return the number of tokens at a time, by the times of the recorded run."""
    spent, tokens = 0.0, 0
    for entry in trace.rounds:
        spent += entry.times.decode
        if spent > second * (1 + 1e-9):
            break
        tokens += len(entry.emitted)
    return tokens
