"""Sweeps as files, and the files of other tools."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.errors import TraceError
from specviz.load.export import sweep_csv, sweep_html
from specviz.load.foreign import ForeignLoad, foreign_rows, load_from_json, open_load
from specviz.load.stored import sweep_to_json
from tests.load.sweeps import sweep_of

GUIDELLM = {
    "benchmarks": [
        {
            "config": {
                "strategy": {"type_": "concurrent", "streams": streams},
                "backend": {"model": "tiny"},
            },
            "metrics": {
                "output_tokens_per_second": {"successful": {"mean": 100.0 * streams}},
                "time_to_first_token_ms": {
                    "successful": {"percentiles": {"p50": 20.0, "p90": 30.0, "p99": 40.0}}
                },
                "request_totals": {"successful": 50, "errored": 2},
            },
        }
        for streams in (1, 4)
    ]
}


def test_a_sweep_is_read_as_it_was_written(tmp_path: Path) -> None:
    sweep = sweep_of((1, 2), failures=1)
    path = tmp_path / "sweep.json"
    path.write_text(sweep_to_json(sweep), encoding="utf-8")
    assert open_load(path) == sweep


def test_csv_has_a_row_for_each_block() -> None:
    sweep = sweep_of((1, 2), failures=1)
    rows = list(csv.DictReader(io.StringIO(sweep_csv(sweep))))
    assert len(rows) == len(sweep.blocks)
    assert {each["lane"] for each in rows} == {"target alone", "γ 4"}
    for row, block in zip(rows, sweep.blocks, strict=True):
        assert int(row["tokens_received"]) == sum(each.tokens for each in block.requests)
        assert float(row["level"]) == block.level
        assert row["failures"] == "1"


def test_html_shows_foreign_text_literally() -> None:
    sweep = sweep_of((1, 2))
    lanes = tuple(
        replace(each, info=replace(each.info, model="<script>x</script>")) for each in sweep.lanes
    )
    page = sweep_html(replace(sweep, lanes=lanes))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<tr>") == 2 * (1 + 4)
    assert page.count("<svg") == 2
    assert "src=" not in page


def test_guidellm_has_a_point_for_each_benchmark() -> None:
    found = load_from_json(json.dumps(GUIDELLM), "guide.json")
    assert isinstance(found, ForeignLoad)
    assert (found.tool, found.model) == ("GuideLLM", "tiny")
    assert [each.level for each in found.points] == [1, 4]
    assert [each.tokens_per_second for each in found.points] == [100.0, 400.0]
    first = found.points[0].ttft
    assert first is not None
    assert (first.p50, first.p99) == (0.02, 0.04)
    assert [row["Failures"] for row in foreign_rows(found)] == ["2", "2"]


@pytest.mark.parametrize("text", ["[]", "{}", '{"benchmarks": []}', '{"benchmarks": [7]}', "nul"])
def test_other_files_are_refused_with_their_name(text: str) -> None:
    with pytest.raises(TraceError, match=r"other\.json"):
        load_from_json(text, "other.json")
