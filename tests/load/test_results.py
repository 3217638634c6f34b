"""Results as files, and the results of other load generators."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from specviz.errors import TraceError
from specviz.figures.load_figures import load_figures
from specviz.load.export import sweep_csv, sweep_html
from specviz.load.foreign import ForeignLoad, load_from_json
from specviz.record.load_run import LoadSweep
from tests.load.sweeps import sweep_of

AIPERF = {
    "schema_version": "1.0",
    "aiperf_version": "0.3.0",
    "request_throughput": {"unit": "requests/sec", "avg": 3.37},
    "request_latency": {"unit": "ms", "avg": 2000.0, "p50": 1900.0, "p90": 2300.0, "p99": 2500.0},
    "time_to_first_token": {"unit": "ms", "avg": 150.5, "p50": 145.0, "p90": 180.0, "p99": 200.0},
    "inter_token_latency": {"unit": "ms", "avg": 18.5, "p50": 18.0, "p90": 21.0, "p99": 25.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 1150.92},
    "output_token_throughput_per_user": {"unit": "tokens/sec/user", "avg": 115.09},
    "request_count": {"unit": "requests", "avg": 90.0},
    "error_request_count": {"unit": "requests", "avg": 10.0},
    "input_config": {
        "endpoint": {"model_names": ["some/model"]},
        "loadgen": {"concurrency": 10, "request_rate": None},
    },
}


def distribution(p50: float, p90: float, p99: float) -> dict[str, Any]:
    return {
        "successful": {
            "mean": p50, "median": p50,
            "percentiles": {"p50": p50, "p90": p90, "p99": p99},
        }
    }  # fmt: skip


def guidellm(strategy: dict[str, Any], place: str) -> dict[str, Any]:
    benchmark: dict[str, Any] = {
        place: {"strategy": strategy},
        "metrics": {
            "requests_per_second": {"successful": {"mean": 2.0}},
            "request_concurrency": {"successful": {"mean": 3.9}},
            "output_tokens_per_second": {"successful": {"mean": 400.0}},
            "time_to_first_token_ms": distribution(50.0, 70.0, 90.0),
            "inter_token_latency_ms": distribution(9.0, 10.0, 12.0),
            "request_latency": distribution(1.5, 1.8, 2.0),
            "request_totals": {"successful": 95, "incomplete": 2, "errored": 3, "total": 100},
        },
    }
    return benchmark


def opened(record: object) -> ForeignLoad:
    found = load_from_json(json.dumps(record), "it")
    assert isinstance(found, ForeignLoad)
    return found


def test_aiperf() -> None:
    found = opened(AIPERF)
    (point,) = found.points
    assert (found.tool, found.model) == ("AIPerf", "some/model")
    assert (point.mode, point.level, point.tokens_per_second) == ("closed", 10, 1150.92)
    assert point.ttft is not None
    assert point.chunk_latency is not None
    assert (point.ttft.p50, point.chunk_latency.p99) == pytest.approx((0.145, 0.025))
    assert point.failures == 10


def test_guidellm() -> None:
    found = opened(
        {
            "args": {"model": "some/model"},
            "benchmarks": [
                guidellm({"type_": "synchronous"}, "args"),
                guidellm({"type_": "concurrent", "streams": 4}, "config"),
                guidellm({"type_": "poisson", "rate": 2.5}, "config"),
            ],
        }
    )
    assert (found.tool, found.model) == ("GuideLLM", "some/model")
    assert [(each.mode, each.level) for each in found.points] == [
        ("closed", 1), ("closed", 4), ("open", 2.5),
    ]  # fmt: skip
    last = found.points[-1]
    assert last.ttft is not None
    assert last.chunk_latency is not None
    assert last.request_latency is not None
    times = last.ttft.p90, last.chunk_latency.p50, last.request_latency.p99
    assert times == pytest.approx((0.07, 0.009, 2.0))
    assert last.failures == 3


@pytest.mark.parametrize("record", [None, [], {}, {"benchmarks": [{}]}, {"kind": "specviz.trace"}])
def test_other_files_are_refused(record: object) -> None:
    with pytest.raises(TraceError):
        load_from_json(json.dumps(record), "it")


@pytest.mark.parametrize("wrong", [-1.0, 1e300, "fast", True, None])
def test_impossible_numbers_of_a_file_are_left_out(wrong: object) -> None:
    metric = {"unit": "tokens/sec", "avg": wrong}
    (point,) = opened({**AIPERF, "output_token_throughput": metric}).points
    assert point.tokens_per_second is None


def test_the_csv_has_the_figures_of_every_block() -> None:
    sweep = sweep_of((1, 4), units=2)
    rows = list(csv.DictReader(io.StringIO(sweep_csv(sweep))))
    blocks = load_figures(sweep).blocks
    assert [float(each["tokens_per_second"]) for each in rows] == [
        each.tokens_per_second for each in blocks
    ]
    assert {each["lane"] for each in rows} == {"target alone", "γ 4"}


def with_model(sweep: LoadSweep, name: str) -> LoadSweep:
    lanes = tuple(replace(each, info=replace(each.info, model=name)) for each in sweep.lanes)
    return replace(sweep, lanes=lanes)


def test_the_page_has_no_script_no_requests_and_escapes_names() -> None:
    hostile = '<script>alert("x")</script>'
    page = sweep_html(replace(with_model(sweep_of(), hostile), notices=(hostile,)))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<svg") == 2
    assert "default-src 'none'" in page
    addresses = {each.info.address for each in sweep_of().lanes}
    for each in addresses:
        page = page.replace(each, "")
    assert "http" not in page.replace("http-equiv", "")
