"""A fake pair and measured run without models, patched into the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from specviz.record.pairs import PairSpec, Progress, ProgressCallback
from specviz.record.trace import Baseline, Prompt, Round, Trace
from tests.traces import Passes, make_trace, timed


class FakeRun:
    """Yields the rounds of a given trace and records the calls."""

    def __init__(self, ready: Trace, *, baseline: bool, measures: bool) -> None:
        self.ready = ready
        self.baseline = baseline
        self.measures = measures
        self.timing: Baseline | None = None
        self.stopped = False
        self.seen: list[Round] = []
        self.before_round: Callable[[int], None] = lambda _index: None
        self.before_baseline: Callable[[], None] = lambda: None

    @property
    def prompt(self) -> Prompt:
        return self.ready.prompt

    def __iter__(self) -> Iterator[Round]:
        for entry in self.ready.rounds:
            self.before_round(entry.index)
            self.seen.append(entry)
            yield entry
            if self.stopped:
                return

    def stop(self) -> None:
        self.stopped = True

    def trace(self) -> Trace:
        rounds = tuple(self.seen)
        text = "".join(f" w{token}" for entry in rounds for token in entry.emitted)
        finish = "stopped" if self.stopped else self.ready.finish
        bare = replace(self.ready, rounds=rounds, text=text, finish=finish)
        return replace(bare, baseline=self.timing)

    def timed(self) -> Iterator[Baseline]:
        if self.stopped or not self.baseline:
            return
        self.before_baseline()
        tokens = [0.01] * len(self.ready.token_ids)
        passes = Passes(target=[tokens] * 2, speculative=[[0.02] * len(self.seen)] * 2)
        self.timing = timed(self.ready, passes).baseline
        assert self.timing is not None
        yield self.timing

    def complete(self, on_progress: ProgressCallback | None = None) -> None:
        for tenth in range(3 * self.measures):
            assert on_progress is not None
            on_progress(
                Progress(activity="measuring", text=f"measuring step costs: {10 * tenth} %")
            )


class FakeEngine:
    """Replaces ``specviz.engine`` and ``specviz.measure.measured_run``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requested: dict[str, Any] = {}
        self.fails: Exception | None = None
        self.measures = False  # step costs, after the run
        self.prepare: Callable[[FakeRun], None] = lambda _run: None
        engine, measured = ModuleType("specviz.engine"), ModuleType("specviz.measure.measured_run")
        engine.__dict__["load_pair"] = self.load_pair
        measured.__dict__["measured_run"] = self.measured_run
        monkeypatch.setitem(sys.modules, "specviz.engine", engine)
        monkeypatch.setitem(sys.modules, "specviz.measure.measured_run", measured)

    def load_pair(
        self, spec: PairSpec, *, progress: ProgressCallback, before_kernels: bool = False
    ) -> object:
        assert not before_kernels  # a command waits for the kernels
        self.requested |= {"spec": spec, "progress": progress}
        if self.fails:
            raise self.fails
        sys.stdout.write("a library says hello\n")
        return object()

    def measured_run(
        self,
        _pair: object,
        prompt: str,
        config: Any,
        *,
        baseline: bool,
        budget: float | None,
        fresh_costs: bool,
        on_progress: ProgressCallback,
    ) -> FakeRun:
        del on_progress
        self.requested |= {"prompt": prompt, "config": config, "baseline": baseline}
        self.requested |= {"fresh_costs": fresh_costs, "budget": budget}
        ready = make_trace(["aar", "aaa", "rdd", "aaa"], config=config)
        run = FakeRun(ready, baseline=baseline, measures=self.measures)
        self.prepare(run)
        return run


def bench_result() -> dict[str, Any]:
    return {
        "environment": {"device": "cpu", "dtype": "float32", "threads": 1},
        "ratios": {"vs_hf_assisted_best": 1.875, "forecast_error": None},
        "intervals": {"vs_hf_assisted_best": [1.75, 2.0]},
        "rows": [{"lane": "plain", "tokens_per_second": 120.5}],
        "divergences": [{"lane": "hf", "kind": "story", "position": 7, "margin": 0.015625}],
        "notices": ["llama.cpp is not installed"],
        "figures": {"alpha_by_kind": {"story": 0.75}, "story_gamma": 4, "bad": float("nan")},
    }


def fake_bench(monkeypatch: pytest.MonkeyPatch, requested: dict[str, Any]) -> None:
    def run_bench(load: Any, *, body: str, repeats: int, quick: bool, say: Any) -> dict[str, Any]:
        load("none")
        load(body)
        requested.update(body=body, repeats=repeats, quick=quick)
        say("step costs")
        return bench_result()

    module = ModuleType("specviz.bench.bench")
    module.__dict__["run_bench"] = run_bench
    monkeypatch.setitem(sys.modules, "specviz.bench.bench", module)
