"""The table of figures: what is known in its column, what is not with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.analysis import metrics, verdict_sentence
from specviz.cli.figures import render_figures
from specviz.cli.painter import Painter, display_width
from specviz.trace import Forecast, RunConfig, Trace
from tests.traces import make_baseline, make_costs, make_trace

SPELT = ["aaa", "aar", "rdd", "aaa"]  # 9 accepted of 10 tested of 12 drafted; 13 emitted


def measured_trace() -> Trace:
    """Each lane twice and equal: the target in 0.13 s, the run in 0.04 s."""
    trace = make_trace(SPELT, step_costs=make_costs())
    blocks = make_baseline(
        target=[[0.01] * len(trace.token_ids)] * 2, speculative=[[0.01] * len(SPELT)] * 2
    )
    return replace(trace, baseline=blocks)


def drawn(trace: Trace, *, width: int = 80, colour: bool = False) -> str:
    figures = metrics(trace)
    sentence = verdict_sentence(figures, trace)
    return render_figures(Painter(colour=colour, width=width), trace, figures, sentence)


def row(text: str, label: str) -> str:
    found = [line for line in text.split("\n") if line.startswith(f"    {label}  ")]
    assert len(found) == 1, (label, found)
    return " ".join(found[0].split())


def test_the_verdict_comes_first_and_bold() -> None:
    trace = measured_trace()
    sentence = verdict_sentence(metrics(trace), trace)
    assert drawn(trace, colour=True).startswith(f"  \x1b[1m{sentence}\x1b[0m\n")


@pytest.mark.parametrize(
    "expected",
    [
        "speedup, observed 3.00 × equal blocks within 0.0 %",
        "tokens/s 300.0",
        "tokens/s, target alone 100.0",
        "τ 3.00 tokens a round",
        "α observed 0.800 too few rounds for an interval",
        "draft acceptance rate 0.667 8 accepted of 12 drafted",
        "c 0.100 draft step / target step",
        "v 1.300 verify 4 tokens / target step",
        "speedup, accounted 1.88 × τ / (γc + v)",
        "time to first token 32.0 ms target alone 30.0 ms",
        "α at position 1 0.750 ━━━━━━━━━━━━━━━",
    ],
)
def test_a_known_figure(expected: str) -> None:
    label = expected.split(" 0")[0] if expected[0] in "cvα" else ""
    text = drawn(measured_trace())
    lines = [" ".join(line.split()) for line in text.split("\n")]
    assert expected in lines, label
