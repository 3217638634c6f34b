"""Answers of other engines as files: round trips, and never mistaken for our own runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz import store
from specviz.errors import TraceError
from specviz.record.server_run import ServerTrace
from tests.record.server_traces import server_trace, timed, undivided, without_rounds
from tests.traces import full_trace

KINDS = {
    "reported": server_trace(),
    "undivided": undivided(server_trace()),
    "unreported": without_rounds(server_trace()),
    "with a baseline": timed(server_trace()),
    "merged": replace(
        server_trace(), rounds=tuple(replace(each, merged=True) for each in server_trace().rounds)
    ),
    "no rounds": replace(server_trace(), rounds=()),
}


@pytest.mark.parametrize("name", KINDS)
def test_an_answer_round_trips(name: str, tmp_path: Path) -> None:
    trace = KINDS[name]
    store.save_trace(trace, tmp_path / "answer.json")
    assert store.load_run(tmp_path / "answer.json") == trace
    record = json.loads((tmp_path / "answer.json").read_bytes())
    assert (record["schema"], record["kind"]) == (8, "specviz.trace")
    assert record.keys() == {"schema", "kind", "server"}


def test_load_run_reads_own_runs_too(tmp_path: Path) -> None:
    store.save_trace(full_trace(), tmp_path / "own.json")
    assert store.load_run(tmp_path / "own.json") == full_trace()
    assert json.loads((tmp_path / "own.json").read_bytes())["schema"] < 8


def test_load_trace_rejects_an_answer_and_names_its_engine(tmp_path: Path) -> None:
    store.save_trace(server_trace(), tmp_path / "answer.json")
    with pytest.raises(TraceError, match=r"answer\.json is an answer of another engine \(vLLM"):
        store.load_trace(tmp_path / "answer.json")


def test_an_older_specviz_reports_a_newer_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = store.trace_to_json(server_trace())
    monkeypatch.setattr("specviz.store.traces.SCHEMA", 7)
    with pytest.raises(TraceError, match="has schema 8: it was written by a newer specviz"):
        store.run_from_json(text)


def test_schema_7_rejects_an_answer() -> None:
    text = store.trace_to_json(server_trace()).replace('"schema":8', '"schema":7')
    with pytest.raises(TraceError, match="unknown field `server`"):
        store.run_from_json(text)


def record() -> dict[str, Any]:
    return json.loads(store.trace_to_json(server_trace()))


def spoilt(path: str, value: object) -> str:
    """Return the file with another value at a path such as ``rounds.1.accepted``."""
    whole = record()
    place: Any = whole["server"]
    *steps, last = path.split(".")
    for step in steps:
        place = place[int(step) if step.isdigit() else step]
    place[last] = value
    return json.dumps(whole)


IMPOSSIBLE: dict[str, tuple[str, object, str]] = {
    "more accepted than drafted": ("rounds.1.accepted", 6, "more candidates accepted than drafted"),
    "below 0": ("rounds.1.drafted", -1, "expected `int` >= 0 in rounds[1].drafted."),
    "endless drafting": ("rounds.1.drafted", 10**9, "expected `int` <= 1024 in rounds[1].drafted."),
    "texts": ("rounds.1.texts", ["a", "b"], "texts that do not fit"),
    "token ids": ("rounds.1.token_ids", [1], "lists that do not fit"),
    "log-probabilities": ("rounds.1.logprobs", [0.5] * 4, "<= 1e-05 in rounds[1].logprobs[0]."),
    "tokens": ("rounds.1.num_tokens", -1, "expected `int` >= 0 in rounds[1].num_tokens."),
    "before the request": ("rounds.0.at", -0.1, "expected `float` >= 0.0 in rounds[0].at."),
    "out of order": ("rounds.0.at", 5.0, "rounds out of order"),
    "totals": ("totals.accepted", 99, "more candidates accepted than drafted"),
    "rounds in all": ("totals.rounds", -1, "expected `int` >= 0 in totals.rounds."),
    "gamma": ("info.gamma", -1, "expected `int` >= 0 in info.gamma."),
    "engine": ("info.engine", "mine", "invalid enum value 'mine' in info.engine."),
    "grounds": ("grounds", "guessed", "invalid enum value 'guessed' in grounds."),
    "temperature": ("settings.temperature", -1.0, "`float` >= 0.0 in settings.temperature."),
    "an unknown field": ("secret", 1, "unknown field `secret`."),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_values_are_refused(name: str) -> None:
    path, value, problem = IMPOSSIBLE[name]
    with pytest.raises(TraceError, match="damaged") as caught:
        store.run_from_json(spoilt(path, value), "answer.json")
    assert problem in str(caught.value)


def test_a_baseline_time_of_zero_is_refused() -> None:
    trace = timed(server_trace())
    text = store.trace_to_json(trace).replace('"seconds":0.4', '"seconds":0.0', 1)
    with pytest.raises(TraceError, match=r"> 0.0 in baseline\[0\].alone\[0\].seconds"):
        store.run_from_json(text)
    assert isinstance(store.run_from_json(store.trace_to_json(trace)), ServerTrace)


def test_a_schema_7_file_is_read_and_written_unchanged() -> None:
    """Schema 7 has no answers of other engines; our own runs do not need a newer one."""
    file = Path(__file__).parents[1] / "cli" / "of_before" / "trace_7.json"
    trace = store.load_trace(file)
    assert store.load_run(file) == trace
    assert (len(trace.odds), len(trace.token_ids)) == (12, 12)
    assert store.trace_to_json(trace).strip() == file.read_text(encoding="utf-8").strip()
