"""Runs for the lesson: real ones of the embedded pair, and made-up ones where times decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from specviz.engine import Pair, load_pair
from specviz.figures.metrics import metrics
from specviz.measure.measured_run import measured_run
from specviz.record.pairs import PairSpec
from specviz.record.prompts import preset_suite
from specviz.record.trace import RunConfig, StepCosts, Trace
from specviz.ui.session.history import ShownRun
from tests.traces import Passes, make_costs, make_trace

STORY = "Once upon a time there was a little dog. The dog"


def preset(words: str) -> str:
    """Return the preset prompt that contains these words."""
    return next(each.prompt for each in preset_suite() if words in each.prompt)


@cache
def _pair() -> Pair:
    return load_pair(PairSpec(name="tinystories", threads=1))


@cache
def real(prompt: str = STORY, **settings: Any) -> ShownRun:
    """Make a run without timing the target alone."""
    config = RunConfig(**({"max_new_tokens": 64, "ignore_eos": True} | settings))
    run = measured_run(_pair(), prompt, config, baseline=False)
    for _ in run:
        pass
    return shown(run.trace())


def shown(trace: Trace) -> ShownRun:
    figures = metrics(trace, intervals=False)
    name = f"{id(trace)}"
    return ShownRun(id=name, trace=trace, figures=figures)


def written(
    rounds: Sequence[str] = ("aaaaa",) * 4,
    *,
    gamma: int = 5,
    round_seconds: float = 0.010,
    alone: float = 0.010,
    parameters: int | None = None,
    costs: StepCosts | None = None,
    verify: float = 0.004,
) -> ShownRun:
    """Make a trace up. ``alone``: seconds per token of the target alone."""
    tokens = sum(each.count("a") + 1 for each in rounds)
    passes = Passes(target=[[alone] * tokens] * 2, speculative=[[round_seconds] * len(rounds)] * 2)
    trace = make_trace(
        rounds, config=RunConfig(gamma=gamma), baseline=passes, step_costs=costs or make_costs()
    )
    others = round_seconds - verify
    trace = replace(trace, rounds=tuple(
        replace(each, times=replace(each.times, draft=others / 2, verify=verify, other=others / 2))
        for each in trace.rounds
    ))  # fmt: skip
    if parameters is not None:
        target = replace(trace.pair.target, parameters=parameters)
        trace = replace(trace, pair=replace(trace.pair, target=target))
    return shown(trace)
