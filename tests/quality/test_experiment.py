"""The lanes of an experiment, their independent seeds, and refused settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specviz.comparison.plan import plan_from_json, plan_to_json
from specviz.errors import ConfigError
from specviz.quality.experiment import CONTROL, LOSSLESS, Experiment
from specviz.record.limits import LIMITS
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem
from specviz.record.run_config import RunConfig

CONFIG = RunConfig(temperature=1.0, seed=3)
ITEMS = (SuiteItem(prompt="a"), SuiteItem(prompt="b"))


def experiment(**changes: Any) -> Experiment:
    base = Experiment(spec=PairSpec(), config=CONFIG, items=ITEMS, epsilons=(0.1, 0.3), texts=3)
    return replace(base, **changes)


def test_each_rule_has_a_lane_per_epsilon() -> None:
    lanes = experiment().plan.lanes
    settings = [(e.config.rule, e.config.epsilon, e.config.residual) for e in lanes]
    lossless = ("lossless", 0.0, "leftover")
    assert settings == [
        lossless,
        lossless,
        ("over-accept", 0.1, "leftover"),
        ("over-accept", 0.1, "target"),
        ("typical", 0.1, "leftover"),
        ("over-accept", 0.3, "leftover"),
        ("over-accept", 0.3, "target"),
        ("typical", 0.3, "leftover"),
    ]


def test_no_two_texts_share_a_seed() -> None:
    """With common seeds, the random numbers of a lane would favour or hurt it on every prompt."""
    plan = experiment().plan
    seeds = [run.config(plan).seed for run in plan.runs()]
    assert sorted(seeds) == list(range(3, 3 + 8 * 2 * 3))


def test_opt_is_compared_with_uno_of_the_same_epsilon() -> None:
    made = experiment(rules=("typical", "over-accept"))
    lanes = made.plan.lanes
    pairs = [each for each in made.contests if each.second > CONTROL]
    assert len(pairs) == 2
    for each in pairs:
        first, second = lanes[each.first].config, lanes[each.second].config
        assert (first.residual, second.residual) == ("leftover", "target")
        assert first.epsilon == second.epsilon == each.epsilon
    assert (made.contests[0].first, made.contests[0].second) == (CONTROL, LOSSLESS)


def test_a_plan_keeps_its_seeds_in_the_library() -> None:
    plan = experiment().plan
    assert plan_from_json(plan_to_json(plan)) == plan
    shared = replace(plan, own_seeds=False)
    assert "own_seeds" not in plan_to_json(shared)
    assert shared.key != plan.key


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"config": replace(CONFIG, temperature=0.0)}, "temperature 0"),
        ({"items": ITEMS[:1]}, "one prompt"),
        ({"epsilons": ()}, "no ε"),
        ({"rules": ()}, "no lossy rule"),
        ({"epsilons": (0.1, 0.1)}, "given twice"),
        ({"epsilons": (0.0, 0.1)}, "ε is 0"),
        ({"epsilons": tuple(n / 100 for n in range(1, 20))}, "19 values"),
    ],
)
def test_an_experiment_without_an_answer_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        experiment(**changes)


def test_the_last_seed_must_be_valid() -> None:
    _, most = LIMITS["seed"].whole_ends
    with pytest.raises(ConfigError, match="48 consecutive seeds"):
        _ = experiment(config=replace(CONFIG, seed=most - 46)).plan
    _ = experiment(config=replace(CONFIG, seed=most - 47)).plan
