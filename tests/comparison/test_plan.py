"""Lanes: parsing and labels. Plans: run order, key and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.comparison.plan import (
    MAX_NAME,
    Lane,
    Plan,
    SuiteItem,
    check_compared,
    escaped,
    lane_labels,
    order_that_fits,
    parse_lane,
    plan_from_json,
    plan_to_json,
    preset_suite,
)
from specviz.errors import ConfigError
from specviz.record.pairs import PairSpec, memory_margin
from specviz.record.prompts import read_presets
from specviz.record.trace import RunConfig

DEFAULT = Lane(spec=PairSpec(), config=RunConfig())
ONE = (SuiteItem(prompt="Once"),)


def lanes(*texts: str) -> tuple[Lane, ...]:
    return tuple(parse_lane(text, DEFAULT) for text in texts)


@pytest.mark.parametrize(
    ("typed", "labels"),
    [
        (("gamma=2", "gamma=8"), ("γ 2", "γ 8")),
        (("gamma=2", "gamma=8,temperature=1"), ("γ 2 · T 0.7", "γ 8 · T 1")),
        (("gamma=5", "drafter=prompt-lookup"), ("draft model", "prompt lookup")),
        (("gamma=2", "gamma=8", "gamma=2,top-k=40"), ("γ 2 · no top-k", "γ 8", "top-k 40")),
        (("gamma=2,name=slow", "gamma=8"), ("slow", "γ 8")),
        (("gamma=2,name=x", "gamma=8,name=x"), ("x · γ 2", "x · γ 8")),
        (("gamma=2", "gamma=2"), ("embedded pair", "embedded pair (2)")),
        (("pair=tinystories", "draft=d,target=t"), ("tinystories", "t + d")),
        (("draft=/a/d,target=t", "draft=/a/e,target=t"), ("t + d", "t + e")),
        (("draft=/a/d,target=t", "draft=/b/d,target=t"), ("t + /a/d", "t + /b/d")),
        (
            ("gamma=5", "target-body=90M"),
            ("target at its own size", "target at the cost of a 90 M model"),
        ),
        (
            ("draft_body=10m", "draft_body=0.02b"),
            ("draft at the cost of a 10 M model", "draft at the cost of a 20 M model"),
        ),
        (("dynamic_tree=4x12", "branching=2x1"), ("dynamic tree 4x12", "tree 2x1")),
    ],
)
def test_labels_distinguish_lanes(typed: tuple[str, ...], labels: tuple[str, ...]) -> None:
    assert lane_labels(lanes(*typed)) == labels


def test_a_lane_has_its_own_or_the_default_bodies() -> None:
    default = Lane(spec=PairSpec(target_body="90M"), config=RunConfig())
    one, two, three = (
        parse_lane(text, default).spec
        for text in ("gamma=2", "target-body=none", "pair=other,draft_body=llama-3.2-1b")
    )
    assert one == default.spec
    assert two == PairSpec()
    assert three == PairSpec(name="other", target_body="90M", draft_body="llama-3.2-1b")
    with pytest.raises(ConfigError, match="not a simulated size"):
        parse_lane("target-body=huge", default)


def test_a_plan_without_bodies_has_no_body_fields() -> None:
    plain = Plan(lanes=lanes("gamma=2", "gamma=8"), items=ONE)
    grown = Plan(lanes=lanes("gamma=2", "gamma=8,target-body=90M"), items=ONE)
    assert "body" not in plan_to_json(plain)
    assert plain.key != grown.key
    assert plan_from_json(plan_to_json(grown)) == grown


def test_missing_settings_of_a_lane_are_the_default() -> None:
    default = Lane(spec=PairSpec(threads=1), config=RunConfig(temperature=0.3, seed=4))
    lane = parse_lane("gamma=8, top-p=0.9,rule=over-accept,epsilon=0.1,chat=yes,stop=END", default)
    wanted = replace(
        default.config,
        gamma=8,
        top_p=0.9,
        rule="over-accept",
        epsilon=0.1,
        chat=True,
        stop=("END",),
    )
    assert lane == Lane(spec=default.spec, config=wanted)


def test_models_replace_the_default_ones() -> None:
    two = Lane(spec=PairSpec(draft="d", target="t", threads=1), config=RunConfig())
    assert parse_lane("draft=e", two).spec == PairSpec(draft="e", target="t", threads=1)
    assert parse_lane("target=u", two).spec == PairSpec(draft="d", target="u", threads=1)
    assert parse_lane("pair=tinystories", two).spec == PairSpec(name="tinystories", threads=1)
    shared = parse_lane("draft=e,shared-vocabulary=yes", two)
    assert shared.spec.shared_vocabulary
    assert parse_lane("draft=f", shared).spec.shared_vocabulary
    assert parse_lane("other_target=yes", two).spec.other_target
    assert not parse_lane("draft=f,shared_vocabulary=no", shared).spec.shared_vocabulary
    with pytest.raises(ConfigError, match="shared_vocabulary is 'perhaps'"):
        parse_lane("shared_vocabulary=perhaps", two)
    own = parse_lane("draft=e", DEFAULT).spec
    assert (own.name, own.draft) == (None, "e")
    assert own.target is not None
    assert (Path(own.target) / "config.json").is_file()  # the embedded pair's
    named = Lane(spec=PairSpec(name="other"), config=RunConfig())
    assert str(parse_lane("draft=e", named).spec.target).endswith("/other/target")
    alone = parse_lane("target=u,drafter=prompt-lookup", DEFAULT)
    assert alone.spec == PairSpec(target="u")


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("", "is not key=value"),
        ("gamma", "is not key=value"),
        ("gamma=", "is not key=value"),
        ("=3", "is not key=value"),
        ("gamma=2,gamma=3", "is not key=value"),
        ("gamma=two", "gamma is 'two'"),
        ("gamma=0", "gamma is 0"),
        ("gamma=" + "9" * 5000, "gamma is '999"),
        ("temperature=nan", "temperature is nan"),
        ("chat=maybe", "chat is 'maybe'"),
        ("drafter=magic", "drafter is 'magic'"),
        ("speed=9", "no setting 'speed'"),
        ("epsilon=0.1", "only affects rule=over-accept or typical"),
        ("pair=a,draft=b", "a pair, and also a draft or a target"),
        ("target=b", "a target but no draft"),
        ("name=" + "x" * 61, "name is too long"),
        ("name=a\x1b[31m", "control characters"),
    ],
)
def test_an_invalid_lane_is_refused_in_one_line(text: str, culprit: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_lane(text, DEFAULT)
    message = str(caught.value)
    assert culprit in message
    assert len(message) < 400
    assert "\n" not in message


def test_a_lane_takes_only_the_default_settings_that_its_method_uses() -> None:
    changed = RunConfig(rule="over-accept", epsilon=0.1, residual="target")
    lossless = parse_lane("rule=lossless", replace(DEFAULT, config=changed)).config
    assert (lossless.epsilon, lossless.residual) == (0.0, "leftover")
    distinct = RunConfig(num_drafts=2, replacement=False)
    default = replace(DEFAULT, config=distinct)
    assert parse_lane("num_drafts=1", default).config.replacement
    assert not parse_lane("gamma=3", default).config.replacement


# Plans


def test_lanes_are_interleaved_and_each_goes_first() -> None:
    plan = Plan(lanes=lanes("gamma=2", "gamma=5", "gamma=8"), items=ONE, repeats=3)
    order = [(job.repeat, job.lane) for job in plan.runs()]
    assert order == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (1, 0), (2, 2), (2, 0), (2, 1)]


def test_all_lanes_share_seeds() -> None:
    default = replace(DEFAULT, config=replace(DEFAULT.config, seed=7))
    two = tuple(parse_lane(text, default) for text in ("gamma=2", "gamma=8"))
    plan = Plan(lanes=two, items=preset_suite(), repeats=2)
    jobs = plan.runs()
    assert len(jobs) == len({job.key for job in jobs}) == 2 * 2 * len(read_presets())
    for job in jobs:
        config = job.config(plan)
        assert (config.seed, config.gamma) == (7 + job.repeat, (2, 8)[job.lane])


def test_blocks_finish_a_pair_before_the_next() -> None:
    three = lanes("gamma=2", "draft=d,target=t", "gamma=8")
    plan = Plan(lanes=three, items=ONE, repeats=2, order="blocks")
    assert [job.lane for job in plan.runs()] == [0, 2, 2, 0, 1, 1]
    together = replace(plan, order="interleaved")
    assert set(plan.runs()) == set(together.runs())


def test_the_key_depends_only_on_settings_prompts_and_repeats() -> None:
    plan = Plan(lanes=lanes("gamma=2", "gamma=8"), items=ONE)
    named = replace(plan.lanes[0], name="mine")
    assert replace(plan, lanes=(named, plan.lanes[1])).key == plan.key
    assert replace(plan, order="blocks").key == plan.key
    others = [
        replace(plan, repeats=6),
        replace(plan, baseline=False),
        replace(plan, items=(SuiteItem(prompt="Twice"),)),
        replace(plan, lanes=lanes("gamma=2", "gamma=9")),
        replace(plan, lanes=plan.lanes[::-1]),
        replace(plan, lanes=lanes("gamma=2,pair=tinystories", "gamma=8")),
    ]
    assert len({plan.key, *(other.key for other in others)}) == 7
    # Stored comparisons are found by this key, so it must never change.
    assert plan.key == "a6d7241d0d8b47c2e164c7db06d9e691"


def test_a_plan_round_trips() -> None:
    two = lanes("gamma=2,stop=END,name=a", "draft=d,target=t,temperature=0,stop=END")
    plan = Plan(lanes=two, items=preset_suite(), repeats=2, baseline=False, order="blocks")
    assert plan_from_json(plan_to_json(plan)) == plan
    forked = lanes("gamma=2", "gamma=2,forks=7:2:99=0.25+9:1:4=0")
    plan = Plan(lanes=forked, items=ONE, repeats=1)
    assert plan_from_json(plan_to_json(plan)) == plan
    assert plan.labels[1] == "forked at round 7, token 2 and forked at round 9, token 1"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"lanes": 1}', "[" * 100_000, '{"lanes": [{}]}'])
def test_invalid_json_of_a_plan_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        plan_from_json(text)


@pytest.mark.parametrize(
    "places",
    [
        ("items", 0, "prompt"), ("items", 0, "kind"), ("lanes", 0, "name"), ("baseline",),
        ("lanes", 0, "pair", "target"), ("lanes", 0, "settings", "chat"),
        ("lanes", 0, "settings", "stop"), ("repeats",), ("order",),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [7, [7], {"a": 7}])
def test_a_saved_plan_with_a_wrong_type_is_refused(
    places: tuple[str | int, ...], value: object
) -> None:
    record = json.loads(plan_to_json(Plan(lanes=lanes("gamma=2", "gamma=8"), items=ONE)))
    spot: Any = record
    for place in places[:-1]:
        spot = spot[place]
    spot[places[-1]] = value
    if (places, value) != (("repeats",), 7):
        with pytest.raises(ConfigError, match=r"not a saved plan|number of repeats|order is"):
            plan_from_json(json.dumps(record))


def test_a_loaded_plan_has_the_same_key() -> None:
    whole = [replace(lane, config=replace(lane.config, temperature=1)) for lane in lanes("gamma=2")]
    plan = Plan(lanes=(*whole, *whole), items=ONE)
    assert plan_from_json(plan_to_json(plan)).key == plan.key


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        ({"lanes": ()}, "number of lanes is 0"),
        ({"lanes": lanes(*["gamma=2"] * 65)}, "number of lanes is 65"),
        ({"items": ()}, "number of prompts is 0"),
        ({"repeats": 0}, "number of repeats is 0"),
        ({"repeats": True}, "number of repeats is True"),
        ({"repeats": 101}, "number of repeats is 101"),
        ({"items": ONE * 200, "repeats": 100}, "number of runs is 40000"),
        ({"order": "random"}, "order is 'random'"),
        ({"lanes": lanes("seed=1", "seed=2")}, "differ in seed"),
        ({"lanes": lanes("gamma=2", "max-new-tokens=5")}, "differ in max_new_tokens"),
        ({"lanes": lanes("gamma=2", "chat=yes")}, "differ in chat"),
        ({"lanes": lanes("gamma=2", "forks=7:2:99=0.25")}, "has a fork. Repeats use"),
        (
            {"lanes": lanes(*[f"gamma={each},seed={2**63 - 5}" for each in (2, 3)])},
            "6 consecutive seeds are needed",
        ),
    ],
)
def test_an_invalid_plan_is_refused(changes: dict, culprit: str) -> None:
    plan = Plan(lanes=lanes("gamma=2", "gamma=8"), items=ONE, repeats=6)
    with pytest.raises(ConfigError, match=culprit):
        replace(plan, **changes)


@pytest.mark.parametrize("count", [1, 2, 4, 5, 64])
def test_a_plan_has_up_to_64_lanes_of_which_two_to_four_are_compared(count: int) -> None:
    many = lanes(*[f"gamma={1 + place}" for place in range(count)])
    plan = Plan(lanes=many, items=ONE, repeats=2)
    assert len(plan.runs()) == 2 * count
    assert len(set(plan.labels)) == count
    assert plan_from_json(plan_to_json(plan)) == plan
    if 2 <= count <= 4:
        check_compared(many)
    else:
        with pytest.raises(ConfigError, match=f"number of lanes is {count}"):
            check_compared(many)


def test_pairs_are_interleaved_only_if_they_fit_together() -> None:
    gib = 2**30
    assert order_that_fits([gib], None) == "interleaved"
    assert order_that_fits([gib, gib], None) == "blocks"
    room = memory_margin(2 * gib)
    assert room == 2 * gib * 13 // 10 + gib
    assert order_that_fits([gib, gib], room) == "interleaved"
    assert order_that_fits([gib, gib], room - 1) == "blocks"


# Lanes written and read again


PRINTABLE = st.text(
    st.characters(exclude_categories=("C", "Z")) | st.sampled_from("%,=2C5 "), min_size=1
)
WRITTEN = PRINTABLE.map(str.strip).filter(bool)


@given(WRITTEN, WRITTEN, WRITTEN.map(lambda text: text[:MAX_NAME].strip()), WRITTEN)
def test_any_text_round_trips_through_a_lane(target: str, draft: str, name: str, stop: str) -> None:
    values = {"target": target, "draft": draft, "name": name, "stop": stop}
    text = ",".join(f"{key}={escaped(value)}" for key, value in values.items())
    spec = PairSpec(target=target, draft=draft)
    assert parse_lane(text, DEFAULT) == Lane(spec=spec, config=RunConfig(stop=(stop,)), name=name)


def test_an_unescaped_percent_sign_is_kept() -> None:
    assert parse_lane("name=100% of 2%20b", DEFAULT).name == "100% of 2%20b"
