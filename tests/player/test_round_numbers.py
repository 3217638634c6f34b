"""The numbers of an answer's rounds in the player, which agree with the headline."""

from __future__ import annotations

import json
from dataclasses import replace
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

from specviz import ASSETS
from specviz.figures.server_figures import server_metrics
from specviz.player.any_run import payload_of_run
from specviz.player.payload import RunStatus
from specviz.player.server_payload import server_payload
from specviz.record.server_run import ServerTrace
from specviz.store.traces import load_run
from tests.node import ROOT, run_node
from tests.record.server_traces import server_trace, without_rounds

PLAYER = ROOT / "assets" / "player"
# What the player says about each entry of its list, and what its charts count.
SCRIPT = f"""
const {{ readFileSync }} = await import("node:fs");
const {{ nameOf, placeAmong }} = await import("{(PLAYER / "round_shape.js").as_uri()}");
const {{ RoundCounts }} = await import("{(PLAYER / "round_counts.js").as_uri()}");
const {{ recordingOf }} = await import("{(PLAYER / "recording.js").as_uri()}");
const sent = JSON.parse(readFileSync(process.argv[1], "utf8"));
const recording = recordingOf("an answer", sent);
recording.append(0, sent.items);
const {{ rounds }} = recording;
const counts = new RoundCounts(recording);
counts.take();
console.log(JSON.stringify({{
  names: rounds.map(nameOf), places: rounds.map((_, i) => placeAmong(rounds, i)),
  numbered: counts.numbered, whole: counts.whole,
}}));
"""


def said_by_player(trace: ServerTrace) -> dict[str, Any]:
    sent = payload_of_run(trace, run_id="s", state="done", label="s")["rounds"]
    with NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(sent, file)
        file.flush()
        return json.loads(run_node("--input-type=module", "--eval", SCRIPT, "--", file.name))


def numbers_in(trace: ServerTrace, *, growing: bool = False, start: int = 0) -> list[Any]:
    status = RunStatus(id="s", state="running" if growing else "done", label="s")
    sent = server_payload(trace, status, growing=growing, start=start)["rounds"]["items"]
    return [each.get("number", "none") for each in sent]


def recorded() -> ServerTrace:
    trace = load_run(ASSETS / "recorded_server_answer.json")
    assert isinstance(trace, ServerTrace)
    return trace


@pytest.mark.parametrize("make", [server_trace, recorded])
def test_the_player_counts_the_rounds_of_the_headline(make: Any) -> None:
    trace = make()
    said, count = said_by_player(trace), server_metrics(trace).num_rounds
    assert said["places"][-1] == f"round {count} of {count}"
    assert said["numbered"] == count


def test_a_step_without_candidates_is_not_a_round() -> None:
    said = said_by_player(server_trace([None, (5, 3), None, (5, 0)]))
    assert said["names"] == ["outside the rounds", "round 1", "outside the rounds", "round 2"]
    assert said["places"] == [
        "before round 1 of 2", "round 1 of 2", "after round 1 of 2", "round 2 of 2",
    ]  # fmt: skip
    assert said["whole"] == 2


def test_a_running_answer_numbers_each_round_once() -> None:
    trace = server_trace(grounds="chunks")
    first = replace(trace, rounds=trace.rounds[:1])
    assert numbers_in(first, growing=True) == [None]
    assert server_metrics(replace(first, totals=type(trace.totals)())).num_rounds is None
    assert numbers_in(trace, growing=True, start=1) == [1, 2, 3, 4] == numbers_in(trace)[1:]
    unknown = replace(first, grounds="none")  # llama.cpp, before its totals change
    assert numbers_in(unknown, growing=True) == [None]


def test_pieces_are_not_numbered_as_rounds() -> None:
    assert set(numbers_in(without_rounds(server_trace()))) == {"none"}
