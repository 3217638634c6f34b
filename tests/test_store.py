"""What is written comes back equal; what is damaged is refused in one line, naming the place."""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specviz import store
from specviz.errors import TraceError
from specviz.trace import (
    Alternatives,
    Baseline,
    Block,
    Candidate,
    Environment,
    Extra,
    Forecast,
    Insight,
    ModelInfo,
    PairInfo,
    Prefill,
    Prompt,
    Round,
    RoundTimes,
    RunConfig,
    StepCosts,
    Trace,
)
from tests.traces import make_baseline, make_costs, make_round, make_trace

# Every text, with the lone surrogates that a token cut out of a character may leave.
TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
TOKENS = st.integers(0, 2**31)
COUNTS = st.integers(0, 10**6)
CHANCES = st.floats(0, 1)
SECONDS = st.floats(0, 1e6)
COSTS = st.floats(1e-9, 1e3)


def tuples(each: st.SearchStrategy[Any], *, size: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(each, max_size=size).map(tuple)


@st.composite
def alternatives(draw: st.DrawFn) -> Alternatives:
    rows = draw(st.lists(st.tuples(TOKENS, TEXTS, CHANCES), max_size=3))
    ids, texts, probs = zip(*rows, strict=True) if rows else ((), (), ())
    return Alternatives(token_ids=ids, texts=texts, probs=probs)


INSIGHTS = st.builds(
    Insight,
    draft_prob=CHANCES,
    target_prob=CHANCES,
    draft_entropy=st.floats(-1e-6, 20),
    target_entropy=st.floats(-1e-6, 20),
    draft_top=alternatives(),
    target_top=alternatives(),
    residual_top=alternatives(),
)
CANDIDATES = st.builds(
    Candidate,
    token_id=TOKENS,
    text=TEXTS,
    verdict=st.sampled_from(["accepted", "rejected", "discarded"]),
    draft_prob=st.floats(0, 1, exclude_min=True),
    target_prob=CHANCES,
    uniform=CHANCES,
    expected_acceptance=CHANCES,
    insight=st.none() | INSIGHTS,
)
EXTRAS = st.builds(
    Extra,
    token_id=TOKENS,
    text=TEXTS,
    kind=st.sampled_from(["recovered", "bonus"]),
    target_prob=CHANCES,
    draft_prob=st.none() | CHANCES,
    uniform=CHANCES,
)
ROUNDS = st.builds(
    Round,
    index=COUNTS,
    context_length=COUNTS,
    candidates=tuples(CANDIDATES),
    extra=st.none() | EXTRAS,
    emitted=tuples(TOKENS),
    cut=st.sampled_from([None, "eos", "stop", "length", "context"]),
    draft_catch_up=st.integers(0, 2),
    times=st.builds(RoundTimes, draft=SECONDS, verify=SECONDS, other=SECONDS, record=SECONDS),
)
CONFIGS = st.builds(
    RunConfig,
    gamma=st.integers(1, 64),
    temperature=st.floats(0, 100),
    top_p=st.floats(0, 1, exclude_min=True),
    seed=st.integers(0, 2**63 - 1),
    drafter=st.sampled_from(["model", "prompt-lookup"]),
    rule=st.sampled_from(["lossless", "over-accept"]),
    epsilon=CHANCES,
    residual=st.sampled_from(["leftover", "target", "draft"]),
    ignore_eos=st.booleans(),
    stop=tuples(TEXTS.filter(bool)),
)
MODELS = st.builds(
    ModelInfo,
    name=TEXTS,
    family=TEXTS,
    parameters=st.integers(0, 10**12),
    weights_sha256=TEXTS,
    step=st.sampled_from(["library", "lean"]),
)


@st.composite
def costs(draw: st.DrawFn) -> StepCosts:
    contexts = tuple(sorted(draw(st.sets(COUNTS, min_size=1, max_size=3))))
    row = st.lists(COSTS, min_size=len(contexts), max_size=len(contexts)).map(tuple)
    target = draw(st.lists(row, min_size=1, max_size=3).map(tuple))
    return StepCosts(contexts=contexts, draft=draw(tuples(row, size=2)), target=target)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    rounds = draw(tuples(ROUNDS))
    sizes = {"target": sum(len(entry.emitted) for entry in rounds), "speculative": len(rounds)}
    names: tuple[Literal["target", "speculative"], ...] = ("target", "speculative")
    blocks = tuple(
        Block(lane=lane, seconds=tuple(draw(SECONDS) for _ in range(sizes[lane])))
        for lane in draw(st.lists(st.sampled_from(names), max_size=4))
    )
    forecast = st.builds(Forecast, speedup=COSTS, tau=COSTS, kind=TEXTS, num_texts=COUNTS)
    return Trace(
        config=draw(CONFIGS),
        pair=draw(
            st.builds(
                PairInfo, name=TEXTS, target=MODELS, draft=st.none() | MODELS, vocabulary=COUNTS
            )
        ),
        environment=draw(
            st.builds(
                Environment,
                device=TEXTS,
                device_name=TEXTS,
                dtype=TEXTS,
                threads=COUNTS,
                cpu=TEXTS,
                versions=st.dictionaries(TEXTS, TEXTS, max_size=2),
            )
        ),
        prompt=draw(
            st.builds(
                Prompt,
                text=TEXTS,
                token_ids=tuples(TOKENS),
                token_texts=tuples(TEXTS),
                kind=st.none() | TEXTS,
            )
        ),
        prefill=Prefill(target=draw(SECONDS), draft=draw(SECONDS)),
        rounds=rounds,
        text=draw(TEXTS),
        finish=draw(st.sampled_from(["eos", "stop", "length", "context", "stopped"])),
        created=draw(TEXTS),
        step_costs=draw(st.none() | costs()),
        forecast=draw(st.none() | forecast),
        baseline=draw(st.none() | st.just(Baseline(blocks=blocks, prefill=draw(SECONDS)))),
        notices=draw(tuples(TEXTS)),
    )


def full_trace() -> Trace:
    """One with every optional part present."""
    rounds = [make_round("aar"), make_round("aaa"), make_round("ad", cut="eos")]
    times = ([0.01] * 8, [0.011] * 8)
    return make_trace(
        rounds,
        step_costs=make_costs(),
        forecast=Forecast(speedup=1.4, tau=2.5, kind="story", num_texts=4),
        baseline=make_baseline(target=times, speculative=([0.02] * 3, [0.021] * 3)),
        notices=("A notice.",),
    )


# Written and read back


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trace=traces())
def test_any_trace_comes_back_equal(trace: Trace) -> None:
    text = store.trace_to_json(trace)
    again = store.trace_from_json(text)
    assert again == trace
    assert store.trace_to_json(again) == text


def test_floats_come_back_to_the_last_bit() -> None:
    awkward = 0.1 + 0.2, 5e-324, math.nextafter(1.0, 0.0)
    trace = make_trace([make_round("r", times=awkward)])
    times = store.trace_from_json(store.trace_to_json(trace)).rounds[0].times
    assert [each.hex() for each in (times.draft, times.verify, times.other)] == [
        each.hex() for each in awkward
    ]


def test_a_different_trace_is_not_equal() -> None:
    trace = full_trace()
    other = replace(trace, prefill=replace(trace.prefill, target=math.nextafter(0.02, 1)))
    assert store.trace_from_json(store.trace_to_json(other)) != trace


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    store.save_trace(full_trace(), tmp_path / "run.json")
    record = json.loads((tmp_path / "run.json").read_bytes())
    assert (record["schema"], record["kind"]) == (1, "specviz.trace")
    assert record["rounds"][0]["candidates"][2]["verdict"] == "rejected"
    assert store.load_trace(tmp_path / "run.json") == full_trace()


def test_an_older_file_may_lack_what_has_a_default() -> None:
    record = json.loads(store.trace_to_json(make_trace()))
    for name in ("notices", "step_costs", "forecast", "baseline"):
        del record[name]
    assert store.trace_from_json(json.dumps(record)) == make_trace()


def test_a_whole_number_serves_as_a_real_one() -> None:
    record = json.loads(store.trace_to_json(make_trace()))
    record["prefill"]["target"] = 3
    read = store.trace_from_json(json.dumps(record)).prefill.target
    assert (read, type(read)) == (3.0, float)


def test_saving_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("old")
    store.save_trace(full_trace(), path)
    assert store.load_trace(path) == full_trace()
    assert os.listdir(tmp_path) == ["run.json"]


def test_saving_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "run.json")
    store.save_trace(full_trace(), tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert store.load_trace(tmp_path / "run.json") == full_trace()


def test_a_trace_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    trace = replace(full_trace(), prefill=Prefill(target=math.nan, draft=0.0))
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.save_trace(trace, tmp_path / "run.json")
    assert os.listdir(tmp_path) == []


def refusal(act: Callable[[], object]) -> str:
    """The one line it is refused with."""
    with pytest.raises(TraceError) as caught:
        act()
    assert "\n" not in str(caught.value)
    assert caught.value.remedy.endswith(".")
    return str(caught.value)


@pytest.mark.parametrize("where", ["missing/run.json", ".", "plain/run.json", "n" * 300, "a\0b"])
def test_a_place_that_cannot_be_written(tmp_path: Path, where: str) -> None:
    (tmp_path / "plain").write_text("a file, no folder")
    path = tmp_path / where
    assert str(path) in refusal(lambda: store.save_trace(full_trace(), path))
    assert os.listdir(tmp_path) == ["plain"]


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a file" in refusal(lambda: store.save_trace(full_trace(), tmp_path / "pipe"))
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert "not a file" in refusal(lambda: store.load_trace(tmp_path / "pipe"))


# Refused


BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "blank": (b" \n ", "is empty"),
    "no JSON": (b"once upon a time", "is not JSON (line 1, column 1)"),
    "bytes": (b"\xff\xfe\x00binary", "is not JSON"),
    "a list": (b"[]", "is not a specviz trace"),
    "another object": (b'{"schema": 1}', "is not a specviz trace"),
    "kind of another": (b'{"schema": 1, "kind": {}}', "is not a specviz trace"),
    "newer": (b'{"schema": 2, "kind": "specviz.trace"}', "written by a newer specviz"),
    "schema 0": (b'{"schema": 0, "kind": "specviz.trace"}', "no schema that specviz ever wrote"),
    "schema true": (b'{"schema": true, "kind": "specviz.trace"}', "no schema"),
    "no schema": (b'{"kind": "specviz.trace"}', "no schema"),
    "bare": (b'{"schema": 1, "kind": "specviz.trace"}', "lacks the field"),
    "deep": (b"[" * 200_000, "nested too deeply"),
    "deep inside": (
        b'{"schema": 1, "kind": "specviz.trace", "rounds": ' + b'{"a":' * 100_000,
        "nested too deeply",
    ),
    "long number": (b"1" * 5000, "a number is too long"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(tmp_path: Path, name: str) -> None:
    content, message = BAD_FILES[name]
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    said = refusal(lambda: store.load_trace(path))
    assert str(path) in said
    assert message in said


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "does not exist" in refusal(lambda: store.load_trace(tmp_path / "run.json"))
    assert "is a folder" in refusal(lambda: store.load_trace(tmp_path))
    for name in ("n" * 300, "a\0b"):
        assert str(tmp_path) in refusal(lambda name=name: store.load_trace(tmp_path / name))


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(store.MAX_BYTES + 1)  # sparse: takes no room
    assert "larger than 256 MiB" in refusal(lambda: store.load_trace(tmp_path / "huge.json"))


def test_every_truncation_is_refused_as_such() -> None:
    text = store.trace_to_json(make_trace(["ar"])).strip()
    for length in range(1, len(text)):
        said = refusal(lambda length=length: store.trace_from_json(text[:length], "run.json"))
        assert said.startswith("run.json is damaged: it ends in the middle."), text[:length]


def _set(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def edit(record: dict[str, Any]) -> None:
        *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        place: Any = record
        for key in parents:
            place = place[key]
        place[last] = value

    return edit


FIRST = "rounds.0.candidates.0"
BAD_FIELDS: dict[str, tuple[object, str]] = {
    "text": (3, "text is 3, not a text"),
    "rounds": ({}, "rounds is an object, not a list"),
    "rounds.1": ([], "rounds[1] is a list, not an object"),
    "pair": (None, "pair is null, not an object"),
    "pair.target.parameters": (1.0, "pair.target.parameters is 1.0, not a whole number"),
    "config.gamma": (1000, "config is out of range: gamma is 1000"),
    "config.ignore_eos": (1, "config.ignore_eos is 1, not true or false"),
    "config.stop": (["ok", 1], "config.stop[1] is 1, not a text"),
    "environment.versions": ({"to\nrch": 2}, 'environment.versions["to\\nrch"] is 2'),
    "surplus": (1, 'it has a field "surplus" that is not known'),
    f"{FIRST}.surplus": (1, "rounds[0].candidates[0] has a field"),
    f"{FIRST}.verdict": ("maybe", 'rounds[0].candidates[0].verdict is "maybe"'),
    f"{FIRST}.uniform": (True, "uniform is true, not a number"),
    f"{FIRST}.target_prob": ("0.5", 'target_prob is "0.5", not a number'),
    f"{FIRST}.draft_prob": (0, "drafted at a probability that is not above 0"),
    f"{FIRST}.expected_acceptance": (1.5, "outside 0 to 1"),
    f"{FIRST}.token_id": (2**70, "token_id is out of range"),
    "rounds.0.index": (True, "rounds[0].index is true, not a whole number"),
    "rounds.0.cut": ("bored", 'rounds[0].cut is "bored"'),
    "rounds.0.extra.kind": (None, "rounds[0].extra.kind is null"),
    "rounds.0.times.draft": (-1.0, "rounds[0].times adds up to less than 0"),
    "rounds.0.times.verify": (math.nan, "is NaN"),
    "rounds.0.times.other": (math.inf, "is Infinity"),
    "prefill.target": (1e300, "prefill.target is out of range"),
    "prefill.draft": (10**30, "prefill.draft is out of range"),
    "step_costs.contexts": ([16, 256, 64], "step_costs has contexts out of order"),
    "step_costs.target": ([], "step_costs is not a full table"),
    "step_costs.draft": ([[0.1]], "step_costs is not a full table"),
    "step_costs.target.0.0": (0, "step_costs has a cost not above 0"),
    "baseline.blocks.1.seconds.0": (-0.1, "baseline has a time below 0"),
    "baseline.blocks.0.seconds": ([0.1], "a timed block that does not fit its rounds"),
    "baseline.blocks.1.lane": ("target", "a timed block that does not fit its rounds"),
}


@pytest.mark.parametrize("path", BAD_FIELDS)
def test_bad_fields_are_named(path: str) -> None:
    value, message = BAD_FIELDS[path]
    record = json.loads(store.trace_to_json(full_trace()))
    _set(path, value)(record)
    said = refusal(lambda: store.trace_from_json(json.dumps(record), "run.json"))
    assert said.startswith("run.json is damaged: ")
    assert message in said


def _paths(value: object, path: str = "") -> list[str]:
    entries: list[tuple[str, object]] = []
    if isinstance(value, dict):
        entries = [(str(key), each) for key, each in value.items()]
    elif isinstance(value, list):
        entries = [(str(place), each) for place, each in enumerate(value[:2])]
    deeper = [_paths(each, f"{path}.{key}" if path else key) for key, each in entries]
    return [path] * bool(path) + [each for found in deeper for each in found]


def test_no_field_of_another_type_gets_through() -> None:
    """Each value in turn becomes something that no field of a trace may hold."""
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
        said = refusal(lambda record=record: store.trace_from_json(json.dumps(record)))
        assert f"lacks the field '{last}'" in said


# Values kept between runs


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    rates: tuple[float, ...]
    note: str | None = None


def _only_file(home: Path) -> Path:
    (path,) = home.rglob("*.json")
    return path


def test_a_value_is_kept(home: Path) -> None:
    assert store.load_value("step-costs", "toy cpu", StepCosts) is None
    assert store.save_value("step-costs", "toy cpu", make_costs())
    assert store.load_value("step-costs", "toy cpu", StepCosts) == make_costs()
    assert _only_file(home).parent == home / "step-costs"
    again = make_costs(draft=0.002)
    assert store.save_value("step-costs", "toy cpu", again)
    assert store.load_value("step-costs", "toy cpu", StepCosts) == again


def test_values_of_any_dataclass_by_kind_and_key(home: Path) -> None:
    first, second = Profile(rates=(0.1, 1 / 3)), Profile(rates=(), note="\ud800")
    store.save_value("profile", "one", first)
    store.save_value("profile", "\ud800 two", second)
    assert store.load_value("profile", "one", Profile) == first
    assert store.load_value("profile", "\ud800 two", Profile) == second
    assert store.load_value("profiles", "one", Profile) is None
    assert store.load_value("profile", "one", StepCosts) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b"[" * 200_000, b'{"schema": 1}', b"NaN", b"1" * 5000],
    ids=["empty", "half", "list", "bytes", "deep", "bare", "NaN", "long number"],
)
def test_a_damaged_value_is_not_there(home: Path, content: bytes) -> None:
    store.save_value("profile", "one", Profile(rates=(0.5,)))
    _only_file(home).write_bytes(content)
    assert store.load_value("profile", "one", Profile) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("schema", 2), ("key", "another"), ("kind", "other"), ("value", {"rates": ["x"]})],
)
def test_a_value_of_another_sort_is_not_there(home: Path, name: str, value: object) -> None:
    store.save_value("profile", "one", Profile(rates=(0.5,)))
    record = json.loads(_only_file(home).read_text())
    assert record["key"] == "one"
    _only_file(home).write_text(json.dumps(record | {name: value}))
    assert store.load_value("profile", "one", Profile) is None


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "file"))
    assert store.save_value("profile", "one", Profile(rates=())) is False
    assert store.load_value("profile", "one", Profile) is None


def test_a_value_that_cannot_take_its_place_leaves_nothing_beside(home: Path) -> None:
    store.save_value("profile", "one", Profile(rates=()))
    path = _only_file(home)
    path.unlink()
    path.mkdir()
    assert store.save_value("profile", "one", Profile(rates=())) is False
    assert os.listdir(path.parent) == [path.name]


def _save_many(numbers: tuple[int, int]) -> int:
    profiles = [Profile(rates=(float(number),) * 2000) for number in range(*numbers)]
    unread = 0
    for profile in profiles:
        store.save_value("profile", "shared", profile)
        unread += store.load_value("profile", "shared", Profile) is None
    return unread


def test_two_processes_never_see_half_a_value(home: Path) -> None:
    with ProcessPoolExecutor(2) as pool:
        assert sum(pool.map(_save_many, [(0, 40), (100, 140)])) == 0
    last = store.load_value("profile", "shared", Profile)
    assert last is not None
    assert last.rates[0] in (39, 139)
    assert len(list(home.rglob("*"))) == 2  # the folder and the file


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"SPECVIZ_HOME": "/own"}, "/own"),
        ("linux", {"XDG_DATA_HOME": "/data"}, "/data/specviz"),
        ("linux", {}, "/me/.local/share/specviz"),
        ("darwin", {}, "/me/Library/Application Support/specviz"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/specviz"),
    ],
)
def test_the_folder_by_platform(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    for name in ("SPECVIZ_HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"HOME": "/me"} | variables).items():
        monkeypatch.setenv(name, value)
    assert store.data_folder() == Path(expected)


def test_a_saved_trace_opens_without_models_or_pages(tmp_path: Path) -> None:
    store.save_trace(full_trace(), tmp_path / "run.json")
    program = (
        "import sys, specviz.store, specviz.analysis\n"
        "trace = specviz.store.load_trace(sys.argv[1])\n"
        "print(specviz.analysis.metrics(trace).tau)\n"
        "print({'torch', 'transformers', 'streamlit'} & set(sys.modules))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "run.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["3.5", "set()"]
