"""The data of a race."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from specviz.player.any_run import payload_of_run
from specviz.player.payload import JsonObject
from specviz.player.racing import MOST_LANES, race_payload
from specviz.record.trace import Trace
from tests.player.races import ALONE, THRIFTY, WASTEFUL, short, thrifty, wasteful


def race_of(*traces: Trace) -> JsonObject:
    labels = [f"lane {place}" for place in range(len(traces))]
    return json.loads(json.dumps(race_payload(labels, traces)))["race"]


def seconds_of(lane: JsonObject) -> float:
    return sum(sum(part.values()) for part in lane["parts"])


def test_lanes_keep_their_own_times() -> None:
    first, second = race_of(thrifty(), wasteful())["lanes"]
    assert seconds_of(first) == pytest.approx(THRIFTY)
    assert seconds_of(second) == pytest.approx(WASTEFUL)
    assert [len(lane["parts"]) for lane in (first, second)] == [4, 16]


def test_a_lane_has_the_same_data_as_a_single_run() -> None:
    lane = race_of(wasteful(), thrifty())["lanes"][1]
    alone = payload_of_run(thrifty(), run_id="", state="done", label="lane 1")
    assert {**lane["stage"], "run": None} == {**json.loads(json.dumps(alone)), "run": None}
    assert lane["stage"]["run"]["label"] == lane["label"] == "lane 1"


def test_a_target_appears_once_along_the_first_lane_that_timed_it() -> None:
    (target,) = race_of(wasteful(), thrifty(), thrifty())["targets"]
    assert (target["label"], target["along"]) == ("target alone", "lane 1")
    assert sum(target["seconds"]) == pytest.approx(ALONE)


def test_each_target_has_its_own_row() -> None:
    first = thrifty()
    target = replace(first.pair.target, name="other")
    second = replace(first, pair=replace(first.pair, target=target))
    labels = [each["label"] for each in race_of(first, second)["targets"]]
    assert labels == ["toy-target alone", "other alone"]


def test_lanes_race_without_a_target_alone() -> None:
    race = race_of(wasteful(), short())
    assert race["targets"] == []
    assert not race["open"]


def test_a_race_is_open_if_the_intervals_are_undecided() -> None:
    assert not race_of(thrifty())["open"]
    assert race_of(thrifty(drift=1.05))["open"]  # undecided against the target alone
    assert race_of(thrifty(), thrifty())["open"]
    assert race_of(thrifty(), thrifty(drift=1.001))["open"]
    assert not race_of(thrifty(), thrifty(pace=1.5))["open"]


def test_ids_distinguish_and_recognise_recordings() -> None:
    slower = replace(thrifty(), rounds=wasteful().rounds, baseline=None)
    ids = [lane["stage"]["run"]["id"] for lane in race_of(thrifty(), thrifty(), slower)["lanes"]]
    assert len(set(ids)) == 3
    assert race_of(thrifty())["id"] == race_of(thrifty())["id"]
    assert race_of(thrifty())["id"] != race_of(slower)["id"]


def test_a_race_has_at_most_four_lanes() -> None:
    assert len(race_of(*[thrifty()] * MOST_LANES)["lanes"]) == 4
    with pytest.raises(AssertionError):
        race_of(*[thrifty()] * (MOST_LANES + 1))


def test_four_long_lanes_fit_into_one_message() -> None:
    long = replace(thrifty(), rounds=thrifty().rounds * 32, baseline=None)  # 512 tokens
    assert len(json.dumps(race_payload("abcd", [long] * 4))) < 2_000_000
