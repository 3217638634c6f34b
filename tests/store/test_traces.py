"""Traces round-trip exactly, with the lowest schema, and are written atomically."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from specviz import store
from specviz.errors import TraceError
from specviz.record.forks import Fork
from specviz.record.run_config import RunConfig
from specviz.record.step_costs import PassBytes, ShapeCosts
from specviz.record.trace import Prefill, Trace
from tests.trace_strategies import traces
from tests.traces import BODY, full_trace, make_costs, make_round, make_trace, with_bodies


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trace=traces())
def test_any_trace_round_trips(trace: Trace) -> None:
    text = store.trace_to_json(trace)
    again = store.trace_from_json(text)
    assert again == trace
    assert store.trace_to_json(again) == text


def test_tree_costs_round_trip_and_are_omitted_elsewhere() -> None:
    draft, verify = (0.1, 0.2, 0.3), (1.1, 1.2, 1.3)
    shape = ShapeCosts(shape=(3, 2), draft=draft, verify=verify, draft_error=0.1, verify_error=0.2)
    config, costs = RunConfig(branching=(3, 2)), replace(make_costs(), shape=shape)
    trace = make_trace((), config=config, step_costs=costs)
    text = store.trace_to_json(trace)
    assert store.trace_from_json(text) == trace
    plain = json.loads(store.trace_to_json(full_trace()))
    assert "shape" not in plain["step_costs"]
    for wrong in ([0.1, 0.2], [0.1, 0.2, 0.0]):
        fields = json.loads(text)
        fields["step_costs"]["shape"]["draft"] = wrong
        with pytest.raises(TraceError):
            store.trace_from_json(json.dumps(fields))


def test_dynamic_trees_need_schema_15() -> None:
    times = (0.1, 0.2, 0.3)
    shape = ShapeCosts(
        shape=(1, 1), draft=times, verify=times, draft_error=0.1, verify_error=0.2, dynamic=(4, 8)
    )
    trace = make_trace(
        (),
        config=RunConfig(gamma=2, dynamic_tree=(4, 8)),
        step_costs=replace(make_costs(), shape=shape),
    )
    text = store.trace_to_json(trace)
    assert json.loads(text)["schema"] == 15
    assert store.trace_from_json(text) == trace
    static = RunConfig(branching=(4, 2))
    costs = replace(make_costs(), shape=replace(shape, shape=(4, 2), dynamic=()))
    older = store.trace_to_json(make_trace((), config=static, step_costs=costs))
    assert json.loads(older)["schema"] == 9
    assert "dynamic" not in older
    assert store.trace_from_json(older).config == static


def test_a_busy_machine_beside_fitted_costs_needs_schema_16() -> None:
    trace = make_trace((), step_costs=replace(make_costs(), runs=2, others=0.4))
    text = store.trace_to_json(trace)
    assert json.loads(text)["schema"] == 16
    assert store.trace_from_json(text) == trace
    older = store.trace_to_json(make_trace((), step_costs=replace(make_costs(), runs=2)))
    assert json.loads(older)["schema"] == 12
    assert '"runs":2' in older


def test_floats_round_trip_to_the_last_bit() -> None:
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


def test_the_file_has_its_schema_and_kind(tmp_path: Path) -> None:
    store.save_trace(full_trace(), tmp_path / "run.json")
    record = json.loads((tmp_path / "run.json").read_bytes())
    assert (record["schema"], record["kind"]) == (5, "specviz.trace")
    assert record["rounds"][0]["candidates"][2]["verdict"] == "rejected"
    assert store.load_trace(tmp_path / "run.json") == full_trace()


def test_forks_need_schema_6() -> None:
    trace = full_trace()
    judged = trace.rounds[0].candidates[0]
    fork = Fork(round=0, place=0, token_id=judged.token_id, uniform=judged.uniform, of="a" * 32)
    overruled = replace(judged, overruled=0.25)
    entry = replace(trace.rounds[0], candidates=(overruled, *trace.rounds[0].candidates[1:]))
    config = replace(trace.config, temperature=0.7, forks=(fork,))
    forked = replace(trace, config=config, rounds=(entry, *trace.rounds[1:]))
    text = store.trace_to_json(forked)
    assert json.loads(text)["schema"] == 6
    assert store.trace_from_json(text) == forked
    assert "forks" not in store.trace_to_json(trace)
    assert "overruled" not in store.trace_to_json(trace)
    foreign = text.replace(f'"token_id":{judged.token_id},', '"token_id":77777,', 1)
    with pytest.raises(TraceError, match="a fork that does not fit the rounds"):
        store.trace_from_json(foreign)


def test_odds_along_the_text_need_schema_7() -> None:
    trace = full_trace()
    scored = replace(trace, odds=tuple(0.5 for _ in trace.token_ids))
    text = store.trace_to_json(scored)
    assert json.loads(text)["schema"] == 7
    assert store.trace_from_json(text) == scored
    assert "odds" not in json.loads(store.trace_to_json(trace))
    too_high = (1.5, *scored.odds[1:])
    for odds, problem in ((scored.odds[1:], "do not fit"), (too_high, r"<= 1.00001 in odds\[0\]")):
        with pytest.raises(TraceError, match=problem):
            store.trace_from_json(store.trace_to_json(replace(scored, odds=odds)))


@pytest.mark.parametrize(
    ("part", "key", "value", "schema"),
    [("environment", "place", "1f0e", 8), ("pair", "shared_tokens", 100, 9)],
)
def test_places_of_devices_and_two_vocabularies_need_newer_schemas(
    part: str, key: str, value: str | int, schema: int
) -> None:
    trace = full_trace()
    newer = replace(trace, **{part: replace(getattr(trace, part), **{key: value})})
    text = store.trace_to_json(newer)
    assert json.loads(text)["schema"] == schema
    assert store.trace_from_json(text) == newer
    assert key not in json.loads(store.trace_to_json(trace))[part]


def test_bytes_per_pass_need_schema_10() -> None:
    trace = full_trace()
    costs = replace(make_costs(), bandwidth=2e10, target_reads=PassBytes(weights=900, cache=4))
    counted = replace(trace, step_costs=costs)
    text = store.trace_to_json(counted)
    assert (json.loads(text)["schema"], store.trace_from_json(text)) == (10, counted)
    for wrong in (
        text.replace('"weights":900', '"weights":0'),
        text.replace('"cache":4', '"cache":-4'),
    ):
        with pytest.raises(TraceError, match=r">= \d in step_costs.target_reads"):
            store.trace_from_json(wrong)
    older = json.loads(store.trace_to_json(replace(trace, step_costs=make_costs())))
    assert older["schema"] == 5
    assert not {"target_reads", "draft_reads"} & older["step_costs"].keys()


def test_a_graphed_step_needs_schema_10() -> None:
    pair = full_trace().pair
    graphed = replace(full_trace(), pair=replace(pair, target=replace(pair.target, step="graphed")))
    text = store.trace_to_json(graphed)
    assert (json.loads(text)["schema"], store.trace_from_json(text)) == (10, graphed)


def untimed() -> Trace:
    return replace(full_trace(), baseline=None)


def test_pieces_need_schema_2() -> None:
    trace = replace(untimed(), pieces={"128": "c3", "121": "bc"})
    text = store.trace_to_json(trace)
    assert (json.loads(text)["schema"], store.trace_from_json(text)) == (2, trace)
    assert "pieces" not in json.loads(store.trace_to_json(untimed()))
    with pytest.raises(TraceError, match="not bytes in hex"):
        store.trace_from_json(text.replace('"c3"', '"c"'))


def test_partial_step_costs_need_schema_3() -> None:
    costs = make_costs()
    for pieces in ({}, {"128": "c3"}):
        whole = replace(untimed(), pieces=pieces, step_costs=costs)
        short = replace(whole, step_costs=replace(costs, samples=2, interpolated=(3, 4)))
        record = json.loads(store.trace_to_json(whole))
        assert record["schema"] == 1 + bool(pieces)
        assert not {"samples", "interpolated"} & record["step_costs"].keys()
        text = store.trace_to_json(short)
        assert (json.loads(text)["schema"], store.trace_from_json(text)) == (3, short)
        for wrong in (text.replace('"samples":2', '"samples":-1'), text.replace("[3,4]", "[3,99]")):
            with pytest.raises(TraceError, match="step_costs"):
                store.trace_from_json(wrong)


def test_bodies_need_schema_4() -> None:
    for bandwidth in (None, 2e10):
        trace = with_bodies(untimed(), target=BODY, bandwidth=bandwidth)
        text = store.trace_to_json(trace)
        assert (json.loads(text)["schema"], store.trace_from_json(text)) == (4, trace)
        with pytest.raises(TraceError, match=r">= 1 in pair.target.body.step_bytes"):
            store.trace_from_json(text.replace('"step_bytes":352398336', '"step_bytes":0'))
    plain = json.loads(store.trace_to_json(untimed()))
    assert "body" not in plain["pair"]["target"].keys() | plain["pair"]["draft"].keys()
    assert "bandwidth" not in plain["step_costs"]


def test_slices_and_cost_errors_need_schema_5() -> None:
    costs = replace(make_costs(), draft_errors=(0.1, 0.2, 0.1), target_errors=(0.1,) * 17)
    for trace in (full_trace(), replace(untimed(), step_costs=costs)):
        text = store.trace_to_json(trace)
        assert (json.loads(text)["schema"], store.trace_from_json(text)) == (5, trace)
    assert "target_errors" not in json.loads(store.trace_to_json(untimed()))["step_costs"]


def test_blocks_of_older_schemas_become_one_slice() -> None:
    """The last round is cut, so its time counts in neither lane."""
    record = json.loads(store.trace_to_json(untimed()))
    record["baseline"] = {
        "prefill": 0.02,
        "blocks": [
            {"lane": lane, "seconds": [seconds] * count}
            for lane, seconds, count in (
                ("target", 0.010, 8), ("speculative", 0.020, 3),
                ("speculative", 0.021, 3), ("target", 0.011, 8),
            )
        ],
    }  # fmt: skip
    assert store.trace_from_json(json.dumps(record)) == full_trace()
    for wrong in ([0.01], [-0.01] * 8, "x"):
        record["baseline"]["blocks"][0]["seconds"] = wrong
        with pytest.raises(TraceError, match=r"baseline|blocks"):
            store.trace_from_json(json.dumps(record))
    record["baseline"]["blocks"] = []
    baseline = store.trace_from_json(json.dumps(record)).baseline
    assert baseline is not None
    assert baseline.slices == ()


def test_fields_with_defaults_may_be_missing() -> None:
    record = json.loads(store.trace_to_json(make_trace()))
    for name in ("notices", "step_costs", "forecast", "baseline"):
        del record[name]
    assert store.trace_from_json(json.dumps(record)) == make_trace()


def test_an_integer_is_accepted_for_a_float() -> None:
    record = json.loads(store.trace_to_json(make_trace()))
    record["prefill"]["target"] = 3
    read = store.trace_from_json(json.dumps(record)).prefill.target
    assert (read, type(read)) == (3.0, float)


def test_saving_replaces_the_file_and_leaves_no_temporary_file(tmp_path: Path) -> None:
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


def test_a_failed_save_leaves_no_file(tmp_path: Path) -> None:
    trace = replace(full_trace(), prefill=Prefill(target=math.nan, draft=0.0))
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.save_trace(trace, tmp_path / "run.json")
    assert os.listdir(tmp_path) == []


def test_a_saved_trace_opens_without_models_or_pages(tmp_path: Path) -> None:
    store.save_trace(full_trace(), tmp_path / "run.json")
    program = (
        "import sys, specviz.store, specviz.figures.metrics\n"
        "trace = specviz.store.load_trace(sys.argv[1])\n"
        "print(specviz.figures.metrics.metrics(trace).tau)\n"
        "print({'torch', 'transformers', 'streamlit'} & set(sys.modules))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "run.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["3.5", "set()"]
