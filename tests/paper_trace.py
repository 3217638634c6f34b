"""A trace made by hand: four rounds, the last one cut, with step costs and a baseline."""

from __future__ import annotations

from typing import Any

import pytest

from specviz.record.trace import RunConfig, StepCosts, Trace
from tests.traces import Passes, make_round, make_trace

LOOKUP = RunConfig(gamma=4, drafter="prompt-lookup")


# Contexts 4, 7, 11 (mean 22/3), then the cut round at 12. Tokens 3 + 4 + 1, then 1.
ROUNDS = (
    make_round("aar", expected=(0.9, 0.8, 0.7), times=(0.003, 0.010, 0.002)),
    make_round("aaa", expected=0.5, times=(0.003, 0.011, 0.001)),
    make_round("rdd", expected=(0.2, 0.6, 0.6), times=(0.003, 0.010, 0.002)),
    make_round("ad", expected=(0.4, 0.4), cut="eos", times=(0.5, 0.5, 0.5)),
)
# A third of the way from context 4 to 14: draft 4/3 ms, target 12 ms, verify of 4 tokens 14 ms.
COSTS = StepCosts(
    contexts=(4, 14),
    draft=((0.001, 0.002), (0.005, 0.005)),
    target=((0.010, 0.016), (0.5, 0.5), (0.5, 0.5), (0.012, 0.018), (0.5, 0.5)),
)
# Whole rounds: 80.0 and 81.6 ms; 46 and 47 ms. The cut round's times are absurd on purpose.
BASELINE = Passes(
    target=([0.0100] * 8 + [9.0], [0.0102] * 8 + [7.0]),
    speculative=([0.015, 0.015, 0.016, 5.0], [0.016, 0.015, 0.016, 3.0]),
    prefill=0.02,
)


def paper_trace(**fields: Any) -> Trace:
    return make_trace(
        ROUNDS, **({"step_costs": COSTS, "baseline": BASELINE, "finish": "eos"} | fields)
    )


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-12)
