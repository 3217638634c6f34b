"""Unusable paths and files are refused in one line that names the file and the field."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specviz import store
from specviz.engine.loading.sources import choose
from specviz.errors import ConfigError, TraceError
from specviz.record.limits import MAX_GAMMA
from specviz.record.pairs import PairSpec
from specviz.record.trace import TOP_ALTERNATIVES, RunConfig
from specviz.store.traces import SCHEMA
from tests.traces import full_trace, make_trace


def refusal(act: Callable[[], object]) -> str:
    """Return the single-line error message."""
    with pytest.raises(TraceError) as caught:
        act()
    assert "\n" not in str(caught.value)
    assert caught.value.remedy.endswith(".")
    return str(caught.value)


# Places


@pytest.mark.parametrize("where", ["missing/run.json", ".", "plain/run.json", "n" * 300, "a\0b"])
def test_an_unwritable_path_is_an_error(tmp_path: Path, where: str) -> None:
    (tmp_path / "plain").write_text("a file, no folder")
    path = tmp_path / where
    assert str(path) in refusal(lambda: store.save_trace(full_trace(), path))
    assert os.listdir(tmp_path) == ["plain"]


def test_a_pipe_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a file" in refusal(lambda: store.save_trace(full_trace(), tmp_path / "pipe"))
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert "not a file" in refusal(lambda: store.load_trace(tmp_path / "pipe"))


# Files


BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "blank": (b" \n ", "is empty"),
    "no JSON": (b"once upon a time", "is not JSON: invalid character (byte 0)"),
    "bytes": (b"\xff\xfe\x00binary", "is not JSON"),
    "a list": (b"[]", "is not a specviz trace"),
    "another object": (b'{"schema": 1}', "is not a specviz trace"),
    "kind of another": (b'{"schema": 1, "kind": {}}', "is not a specviz trace"),
    "newer": (
        f'{{"schema": {SCHEMA + 1}, "kind": "specviz.trace"}}'.encode(),
        "written by a newer specviz",
    ),
    "schema 0": (b'{"schema": 0, "kind": "specviz.trace"}', "has an unknown schema"),
    "schema true": (b'{"schema": true, "kind": "specviz.trace"}', "has an unknown schema"),
    "no schema": (b'{"kind": "specviz.trace"}', "has an unknown schema"),
    "bare": (b'{"schema": 1, "kind": "specviz.trace"}', "missing required field `config`"),
    "deep": (b"[" * 200_000, "nested too deeply"),
    "deep inside": (
        b'{"schema": 1, "kind": "specviz.trace", "rounds": ' + b'{"a":' * 100_000,
        "nested too deeply",
    ),
    "long number": (b"1" * 5000, "a number is out of range"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_refused(tmp_path: Path, name: str) -> None:
    content, message = BAD_FILES[name]
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    refused = refusal(lambda: store.load_trace(path))
    assert str(path) in refused
    assert message in refused


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    assert "does not exist" in refusal(lambda: store.load_trace(tmp_path / "run.json"))
    assert "is a folder" in refusal(lambda: store.load_trace(tmp_path))
    for name in ("n" * 300, "a\0b"):
        assert str(tmp_path) in refusal(lambda name=name: store.load_trace(tmp_path / name))


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(store.MAX_BYTES + 1)  # sparse: takes no space
    assert "larger than 270 MB" in refusal(lambda: store.load_trace(tmp_path / "huge.json"))


def test_every_truncation_is_reported() -> None:
    text = store.trace_to_json(make_trace(["ar"])).strip()
    for length in range(1, len(text)):
        refused = refusal(lambda length=length: store.trace_from_json(text[:length], "run.json"))
        assert refused.startswith("run.json is damaged: it is cut off."), text[:length]


# Fields


def _set(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def edit(record: dict[str, Any]) -> None:
        *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        place: Any = record
        for key in parents:
            place = place[key]
        place[last] = value

    return edit


FIRST, AT = "rounds.0.candidates.0", "rounds[0].candidates[0]"
BAD_FIELDS: dict[str, tuple[object, str]] = {
    "text": (3, "expected `str`, got `int` in text."),
    "rounds": ({}, "expected `array`, got `object` in rounds."),
    "rounds.1": ([], "expected `object`, got `array` in rounds[1]."),
    "pair": (None, "expected `object`, got `null` in pair."),
    "pair.target.parameters": (1.0, "expected `int`, got `float` in pair.target.parameters."),
    "config.gamma": (1000, "gamma is 1000 in config."),
    "config.ignore_eos": (1, "expected `bool`, got `int` in config.ignore_eos."),
    "config.stop": (["ok", 1], "expected `str`, got `int` in config.stop[1]."),
    "environment.versions": ({"to\nrch": 2}, "got `int` in environment.versions[...]."),
    "surplus": (1, "damaged: object contains unknown field `surplus`."),
    f"{FIRST}.surplus": (1, f"unknown field `surplus` in {AT}."),
    f"{FIRST}.verdict": ("maybe", f"invalid enum value 'maybe' in {AT}.verdict."),
    f"{FIRST}.uniform": (True, f"expected `float`, got `bool` in {AT}.uniform."),
    f"{FIRST}.target_prob": ("0.5", f"expected `float`, got `str` in {AT}.target_prob."),
    f"{FIRST}.draft_prob": (0, f"expected `float` > 0.0 in {AT}.draft_prob."),
    f"{FIRST}.expected_acceptance": (1.5, f"<= 1.00001 in {AT}.expected_acceptance."),
    f"{FIRST}.overlap": (-0.1, f">= 0.0 in {AT}.overlap."),
    f"{FIRST}.bias": (1.5, f"<= 1.00001 in {AT}.bias."),
    f"{FIRST}.token_id": (2**70, f"expected `int` <= 9223372036854775807 in {AT}.token_id."),
    "rounds.0.index": (True, "expected `int`, got `bool` in rounds[0].index."),
    "rounds.0.cut": ("bored", "invalid enum value 'bored' in rounds[0].cut."),
    "rounds.0.extra.kind": (None, "expected `str`, got `null` in rounds[0].extra.kind."),
    "rounds.0.times.draft": (-1.0, "a sum below 0 in rounds[0].times."),
    "prefill.target": (1e300, "expected `float` <= 1000000000000000.0 in prefill.target."),
    "prefill.draft": (10**30, "expected `float` <= 1000000000000000.0 in prefill.draft."),
    "step_costs.contexts": ([16, 256, 64], "contexts out of order in step_costs."),
    "step_costs.target": ([], "not a full table in step_costs."),
    "step_costs.draft": ([[0.1]], "not a full table in step_costs."),
    "step_costs.target.0.0": (0, "expected `float` > 0.0 in step_costs.target[0][0]."),
    "baseline.slices.0.target.1": (0, "expected `float` > 0.0 in baseline.slices[0].target[1]."),
    "baseline.slices.0.speculative": ([], "of length >= 1 in baseline.slices[0].speculative."),
    "baseline.slices.0.target": ([0.1] * 3, "of length <= 2 in baseline.slices[0].target."),
    "baseline.slices.0.first": (2, "no rounds in baseline.slices[0]."),
    "baseline.slices.0.last": (9, "a timed slice that does not fit the rounds"),
}


@pytest.mark.parametrize("path", BAD_FIELDS)
def test_bad_fields_are_named(path: str) -> None:
    value, message = BAD_FIELDS[path]
    record = json.loads(store.trace_to_json(full_trace()))
    _set(path, value)(record)
    refused = refusal(lambda: store.trace_from_json(json.dumps(record), "run.json"))
    assert refused.startswith("run.json is damaged: ")
    assert message in refused


@pytest.mark.parametrize("constant", [math.nan, math.inf, -math.inf])
def test_constants_that_are_not_json_are_refused(constant: float) -> None:
    record = json.loads(store.trace_to_json(full_trace()))
    record["rounds"][0]["times"]["verify"] = constant
    refused = refusal(lambda: store.trace_from_json(json.dumps(record), "run.json"))
    assert refused.startswith("run.json is not JSON: ")


@pytest.mark.parametrize("place", ["it", "prompt"])
def test_a_refusal_that_quotes_the_file_is_one_short_printable_line(place: str) -> None:
    record = json.loads(store.trace_to_json(full_trace()))
    quoted = {"a\n\u202eb" + "x" * 9999: 1}
    record = {**record, **quoted} if place == "it" else record | {place: record[place] | quoted}
    refused = refusal(lambda: store.trace_from_json(json.dumps(record)))
    assert "unknown field `a\\n\\u202ebxxx" in refused
    assert len(refused) < 400


def _paths(value: object, path: str = "") -> list[str]:
    entries: list[tuple[str, object]] = []
    if isinstance(value, dict):
        entries = [(str(key), each) for key, each in value.items()]
    elif isinstance(value, list):
        entries = [(str(place), each) for place, each in enumerate(value[:2])]
    deeper = [_paths(each, f"{path}.{key}" if path else key) for key, each in entries]
    return [path] * bool(path) + [each for found in deeper for each in found]


def test_no_field_accepts_another_type() -> None:
    """Each value in turn is replaced by one that no field accepts."""
    text = store.trace_to_json(full_trace())
    paths = _paths(json.loads(text))
    assert len(paths) > 150
    for path in paths:
        record = json.loads(text)
        _set(path, {"no": [{"such": "thing"}]})(record)
        refusal(lambda record=record: store.trace_from_json(json.dumps(record)))


def test_no_field_without_a_default_may_be_missing() -> None:
    text = store.trace_to_json(full_trace())
    for path, last in (("rounds.0.times", "draft"), ("pair", "draft"), ("prompt", "text")):
        record = json.loads(text)
        place = record
        for key in path.split("."):
            place = place[int(key) if key.isdigit() else key]
        del place[last]
        refused = refusal(lambda record=record: store.trace_from_json(json.dumps(record)))
        assert f"missing required field `{last}` in " in refused


@pytest.mark.parametrize("place", ["prompt.text", "pair.name", "environment.versions", "token"])
def test_lone_surrogates_are_refused(place: str) -> None:
    record = json.loads(store.trace_to_json(full_trace()))
    half = "one \ud83d two"
    match place:
        case "prompt.text":
            record["prompt"]["text"] = half
        case "pair.name":
            record["pair"]["name"] = half
        case "environment.versions":
            record["environment"]["versions"][half] = "1"
        case _:
            record["rounds"][0]["candidates"][0]["text"] = half
    refused = refusal(lambda: store.trace_from_json(json.dumps(record)))
    assert "is not JSON: unexpected end of escaped utf-16 surrogate pair (byte " in refused
    refused.encode()


def test_no_lone_surrogates_are_written() -> None:
    chosen = choose(PairSpec(draft="drafts/\udcff", target="targets/\udcff"))
    assert (chosen.target_name, chosen.draft_name) == ("targets/?", "drafts/?")
    assert (chosen.name, chosen.target) == ("targets/? + drafts/?", "targets/\udcff")
    with pytest.raises(ConfigError, match="A stop string is not UTF-8"):
        RunConfig(stop=("\udcff",))


def test_too_long_lists_are_refused() -> None:
    def refused(edit: Callable[[dict[str, Any]], None]) -> str:
        record = json.loads(store.trace_to_json(full_trace()))
        edit(record["rounds"][0])
        return refusal(lambda: store.trace_from_json(json.dumps(record)))

    def many_candidates(entry: dict[str, Any]) -> None:
        entry["candidates"] = entry["candidates"][:1] * (MAX_GAMMA + 1)

    def top(count: int) -> dict[str, object]:
        return {"token_ids": [1] * count, "texts": ["a"] * count, "probs": [0.01] * count}

    def many_alternatives(entry: dict[str, Any]) -> None:
        entry["candidates"][0]["insight"] = {
            **dict.fromkeys(("draft_prob", "target_prob", "draft_entropy", "target_entropy"), 0.5),
            **dict.fromkeys(("target_top", "residual_top"), top(1)),
            "draft_top": top(TOP_ALTERNATIVES + 1),
        }

    assert "of length <= 64 in rounds[0].candidates." in refused(many_candidates)
    assert f"<= 10 in {AT}.insight.draft_top.token_ids." in refused(many_alternatives)
    assert "<= 65 in rounds[0].emitted." in refused(lambda entry: entry.update(emitted=[1] * 66))
