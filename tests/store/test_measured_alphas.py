"""The acceptance rates that the model picker shows for pairs that have run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specviz.record.trace import RunConfig, Trace
from specviz.store import Library
from specviz.store.measured_alphas import measured_alphas
from specviz.store.saving import save_run
from tests.traces import make_trace

GREEDY = RunConfig(gamma=2)


def run(letters: list[str], config: RunConfig = GREEDY) -> Trace:
    made = make_trace(letters, config=config)
    return replace(made, pair=replace(made.pair, name="big + small"))


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    return Library()


def test_it_is_the_mean_over_lossless_runs_of_the_draft_model(library: Library) -> None:
    assert measured_alphas() == {}
    save_run(library, run(["aa", "aa"]))
    save_run(library, run(["aa", "ar", "r"]))
    assert measured_alphas() == {("big", "small"): pytest.approx((1.0 + 3 / 5) / 2)}
    save_run(library, run(["aa"], replace(GREEDY, rule="over-accept", epsilon=0.1)))
    save_run(library, run(["aa"], replace(GREEDY, drafter="prompt-lookup")))
    assert measured_alphas() == {("big", "small"): pytest.approx(0.8)}
