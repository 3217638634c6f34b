"""The payloads match the types that the player's scripts are checked against."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz import ASSETS
from specviz.figures.metrics import metrics
from specviz.player.any_run import payload_of_run
from specviz.player.payload import (
    JsonObject,
    RunChoice,
    RunStatus,
    chart_point,
    curves_of,
    payload,
)
from specviz.player.racing import race_payload
from specviz.player.replay import comparison_replay_html, replay_html
from specviz.player.server_payload import server_payload
from specviz.record.trace import Trace
from specviz.store import load_trace
from tests.methods import METHODS, method_trace
from tests.node import check_types
from tests.player.races import thrifty, wasteful
from tests.player.test_replay import data_in
from tests.record.server_traces import server_trace, timed, undivided, without_rounds
from tests.traces import full_trace, make_trace

GROWING = RunStatus(id="s", state="running", label="live")
DECLARED = ASSETS / "player" / "payload.d.ts"
CONFIG = {
    "compilerOptions": {
        "noEmit": True,
        "strict": True,
        "module": "ES2022",
        "moduleResolution": "bundler",
        "target": "ES2022",
        "lib": ["ES2023"],
        "types": [],
    },
    "files": ["payloads.ts"],
}


def recorded() -> Trace:
    return load_trace(ASSETS / "first_trace.json")


def live(trace: Trace, **others: Any) -> JsonObject:
    """Return the last rounds of a growing run."""
    figures = metrics(trace)
    point = chart_point(trace, figures, current=True)
    return payload(
        trace,
        RunStatus(id="live", state="running", label="live", sentence="So far."),
        start=len(trace.rounds) - 1,
        curves=curves_of(trace, figures, None),
        points=[point] if point else [],
        chosen=RunChoice(config=trace.config, prompt=trace.prompt.text, kind=None),
        growing=True,
        **others,
    )


@pytest.mark.parametrize(
    ("chat", "detects", "stale"), [(True, True, False), (True, False, True), (False, True, False)]
)
def test_a_detected_template_does_not_make_the_forecast_stale(
    chat: bool, detects: bool, stale: bool
) -> None:
    """The page does not know of the template that the run used."""
    trace = recorded()
    made = replace(trace, config=replace(trace.config, chat=chat))
    chosen = RunChoice(
        config=trace.config,
        prompt=trace.prompt.text,
        kind=trace.prompt.kind,
        detects_chat=detects,
    )
    found = payload(
        made,
        RunStatus(id="live", state="done", label="live"),
        curves=curves_of(made, metrics(made), None),
        chosen=chosen,
    )
    assert found["charts"]["throughput"]["stale"] is stale


def test_a_round_is_predicted_only_for_the_acceptance_of_the_run() -> None:
    trace = recorded()

    def predicted(**changes: Any) -> bool:
        config = replace(trace.config, **changes)
        chosen = RunChoice(config=config, prompt=trace.prompt.text, kind=trace.prompt.kind)
        found = payload(
            trace,
            RunStatus(id="done", state="done", label="done"),
            curves=curves_of(trace, metrics(trace), None),
            chosen=chosen,
        )
        return found["summary"]["round_cost"]["predicted"]

    gamma = trace.config.gamma + 1
    assert not predicted()
    assert predicted(gamma=gamma)
    assert not predicted(gamma=gamma, drafter="suffix")
    assert not predicted(gamma=gamma, temperature=1.0)


def sent() -> list[tuple[str, JsonObject]]:
    """Payloads with the names of their types."""
    race = race_payload(["thrifty", "wasteful"], [thrifty(), wasteful()])
    table = [["lane", "τ"], ["thrifty", "4.0"]]
    compared = comparison_replay_html(["thrifty"], [thrifty()], verdict="So.", table=table)
    return [
        ("RunPayload", payload_of_run(recorded(), run_id="r", state="recorded", label="r")),
        ("RunPayload", payload_of_run(full_trace(), run_id="f", state="done", label="f")),
        *[
            ("RunPayload", payload_of_run(method_trace(way), run_id=way, state="done", label=way))
            for way in METHODS
        ],
        ("RunPayload", live(recorded(), tour="ask")),
        ("RunPayload", live(make_trace(["ar", "", "aa"]))),
        *[
            ("RunPayload", payload_of_run(each, run_id="s", state="done", label="s"))
            for each in (
                server_trace(),
                timed(server_trace()),
                undivided(server_trace()),
                without_rounds(server_trace()),
            )
        ],
        ("RunPayload", server_payload(server_trace(), GROWING, start=2, growing=True)),
        ("RacePayload", race),
        ("RacePayload", race_payload(["ours", "theirs"], [thrifty(), server_trace()])),
        ("ReplayData", data_in(replay_html(server_trace()))),
        ("ReplayData", data_in(replay_html(full_trace()))),
        ("ReplayData", data_in(compared)),
    ]


def spoilt() -> list[tuple[str, JsonObject]]:
    """Payloads with one fault."""
    data = payload_of_run(full_trace(), run_id="f", state="done", label="f")
    run, first = data["run"], data["rounds"]["items"][0]
    rounds = {**data["rounds"], "items": [{**first, "more": 1}]}
    answer = payload_of_run(server_trace(), run_id="s", state="done", label="s")
    reported = answer["rounds"]["items"][1]
    guessed = {**reported, "times": {"draft": 0.1, "verify": 0.2}}
    return [
        ("RunPayload", {**data, "more": 1}),
        ("RunPayload", {key: value for key, value in data.items() if key != "lanes"}),
        ("RunPayload", {**data, "run": {**run, "state": "odd"}}),
        ("RunPayload", {**data, "run": {**run, "gamma": "5"}}),
        ("RunPayload", {**data, "rounds": rounds}),
        ("RunPayload", {**answer, "rounds": {**answer["rounds"], "items": [guessed]}}),
    ]


def test_payloads_have_the_declared_shape(tmp_path: Path) -> None:
    names = "RunPayload, RacePayload, ReplayData"
    lines = [f"import type {{ {names} }} from {json.dumps(str(DECLARED))};"]
    for index, (name, data) in enumerate(sent()):
        lines.append(f"export const sent{index}: {name} = {json.dumps(data)};")
    for index, (name, data) in enumerate(spoilt()):
        lines.append("// @ts-expect-error")  # an error itself if the next line has none
        lines.append(f"export const spoilt{index}: {name} = {json.dumps(data)};")
    (tmp_path / "payloads.ts").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "tsconfig.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    check_types(tmp_path)
