"""The acceptance rates that the model picker shows for pairs that have run."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig, Trace
from specviz.store import Library
from specviz.store.measured_alphas import measured_alphas
from specviz.store.saving import save_run
from tests.traces import make_trace

GREEDY = RunConfig(gamma=2)


def run(letters: list[str], config: RunConfig = GREEDY) -> Trace:
    made = make_trace(letters, config=config)
    return replace(made, pair=replace(made.pair, name="big + small"))


def with_weights(trace: Trace, target: str, draft: str = "auto") -> Trace:
    pair = trace.pair
    assert pair.draft is not None
    models = {
        "target": replace(pair.target, weights_option=target),
        "draft": replace(pair.draft, weights_option=draft),
    }
    return replace(trace, pair=replace(pair, **models))


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


def test_only_runs_with_the_same_weights_count(library: Library) -> None:
    save_run(library, run(["aa"]))
    save_run(library, with_weights(run(["ar"]), "q8_0"))
    save_run(library, with_weights(run(["r"]), "q8_0", "float"))
    pair = PairSpec(target="big", draft="small")
    found = {
        each.chosen_weights: measured_alphas(each.chosen_weights)
        for each in (
            pair,
            replace(pair, target_weights="q8_0"),
            replace(pair, target_weights="q8_0", draft_weights="float"),
            replace(pair, draft_weights="q8_0"),
        )
    }
    assert found == {
        "": {("big", "small"): 1.0},
        "target in Q8_0": {("big", "small"): 0.5},
        "target in Q8_0, draft in floating point": {("big", "small"): 0.0},
        "draft in Q8_0": {},
    }


def test_older_runs_count_as_runs_with_weights_as_stored(library: Library) -> None:
    save_run(library, run(["aa"]))
    with sqlite3.connect(library.path) as db:
        db.execute("UPDATE runs SET weights = NULL")
    assert measured_alphas() == {("big", "small"): 1.0}
