"""The outlook: made while idle after the first run of a kind, available before the next."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from specviz.engine.model.pair import Pair
from specviz.measure.forecast import Profile, TextOdds, forecast, profile_key
from specviz.measure.step_costs import costs_key
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.trace import RunConfig
from specviz.store import save_value
from specviz.worker.parent.client import Worker
from tests.traces import make_costs
from tests.worker.waiting import finish, wait_until

pytestmark = pytest.mark.timeout(180)

LISTS = [preset.text for preset in read_presets() if preset.kind == "list"]
CONFIG = RunConfig(gamma=3, temperature=0.35, max_new_tokens=24)  # without a shipped profile


def test_outlook_follows_the_first_run_and_comes_with_the_next(
    worker: Worker, spec: PairSpec
) -> None:
    first = finish(worker.submit("a", spec, LISTS[0], CONFIG, baseline=False))
    assert first.outlook is None
    wait_until(lambda: worker.status().progress is not None or first.outlook is not None)
    stopper = worker.submit("b", spec, "My own prompt", CONFIG, baseline=False)
    assert wait_until(lambda: stopper.rounds) < 2.0  # idle tasks give way
    assert finish(stopper).outlook is None  # a typed prompt has no kind
    wait_until(lambda: first.outlook is not None)
    assert first.trace is not None
    assert first.trace.forecast is None
    second = worker.submit("a", spec, LISTS[0], replace(CONFIG, gamma=5), baseline=False)
    wait_until(lambda: second.rounds)
    assert second.outlook == first.outlook
    trace = finish(second).trace
    assert trace is not None
    assert trace.forecast is not None
    assert second.outlook is not None
    assert second.outlook.speedups[4] == trace.forecast.speedup
    assert second.outlook.taus[4] == trace.forecast.tau
    assert (second.outlook.kind, second.outlook.num_texts) == ("list", trace.forecast.num_texts)


def test_outlook_equals_the_forecast_at_every_gamma(
    worker: Worker, spec: PairSpec, pair: Pair
) -> None:
    config = replace(CONFIG, temperature=0.7, max_new_tokens=64)
    odds = tuple(0.5 + 0.4 * (place % 2) for place in range(100))
    texts = (TextOdds(prompt="another", odds=odds), TextOdds(prompt=LISTS[1], odds=(0.0,) * 50))
    profile = Profile(kind="list", texts=texts)
    assert save_value("acceptance", profile_key(pair, config, "list"), profile)
    run = finish(worker.submit("a", spec, LISTS[1], config, baseline=False))
    assert run.outlook is not None
    assert run.outlook.gammas == tuple(range(1, 17))
    assert run.outlook.num_texts == 1
    length = len(pair.tokenizer(LISTS[1])["input_ids"])
    assert run.trace is not None
    for gamma, speedup, tau in zip(
        run.outlook.gammas, run.outlook.speedups, run.outlook.taus, strict=True
    ):
        expected = forecast(
            profile, run.trace.step_costs, replace(config, gamma=gamma), LISTS[1], length
        )
        assert expected is not None
        assert (speedup, tau) == (expected.speedup, expected.tau)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"drafter": "prompt-lookup"}, marks=pytest.mark.thorough),
        {"rule": "over-accept", "epsilon": 0.1},
    ],
)
def test_no_outlook_without_a_forecast(
    worker: Worker, spec: PairSpec, pair: Pair, changes: dict[str, object]
) -> None:
    config = replace(CONFIG, temperature=0.7, **changes)  # pyright: ignore[reportArgumentType]
    assert save_value("step-costs", costs_key(pair, config), make_costs())
    run = finish(worker.submit("a", spec, LISTS[2], config, baseline=False))
    assert (run.state, run.outlook) == ("done", None)
    time.sleep(0.3)  # idle, with nothing to measure for this kind
    progress = worker.status().progress
    assert progress is None or "(list)" not in progress.text
