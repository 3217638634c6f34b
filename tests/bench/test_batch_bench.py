"""The bench of batches on a tiny pair, and the experts that a tiny mixture reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specviz.bench import batch_bench
from specviz.bench.batch_bench import acceptance_of, run_batch_bench
from specviz.bench.expert_reads import ExpertShape, measure_expert_reads
from specviz.cli.batch_bench import render_batch
from specviz.cli.report import to_json
from specviz.cli.terminal_text import Painter
from specviz.engine import speculate
from specviz.engine.model.pair import Pair
from specviz.figures.batch_forecast import FORECAST_LABEL
from specviz.measure.batch_costs import newest_batch_forecast
from specviz.record.bodies import NO_BODY
from specviz.record.trace import RunConfig


@pytest.mark.thorough  # a pass for several sequences is compiled first
def test_forecast_and_measurement_of_each_batch(
    pair: Pair, empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_bench, "MEASURED", (1, 2, 4))
    monkeypatch.setattr(batch_bench, "BATCHES", (1, 2))
    said: list[str] = []
    result = run_batch_bench(
        pair, body=NO_BODY, temperature=0.7, repeats=1, quick=True, with_experts=False,
        say=said.append,
    )  # fmt: skip
    record = json.loads(to_json(result))
    points = record["forecast"]["points"]
    assert [each["batch"] for each in points] == [1, 2, 4]
    assert all(each["same_texts"] and each["speedup"] > 0 for each in points)
    assert record["label"] == FORECAST_LABEL
    found = newest_batch_forecast()
    assert found is not None
    assert found.points[2].forecast == points[2]["forecast"]
    printed = render_batch(Painter(colour=False, width=100), result)
    assert "same texts" in printed
    assert "no scheduler, no ragged acceptance" in " ".join(printed.split())


def test_acceptance_counts_every_run_alike(pair: Pair) -> None:
    settings = RunConfig(gamma=3, max_new_tokens=12, temperature=0.0, record=False)
    runs = [list(speculate(pair, [5, 6, 7 + number], settings)) for number in range(2)]
    found = acceptance_of(runs, 3)
    assert found.tokens(3) == pytest.approx(
        1 + sum(_mean_accepted(rounds) for rounds in runs) / len(runs)
    )


def _mean_accepted(rounds: list) -> float:
    whole = [each for each in rounds if each.cut is None]
    return sum(each.num_accepted for each in whole) / len(whole)


def test_more_rows_read_more_experts() -> None:
    shape = ExpertShape(width=32, feed_forward=32, layers=2, vocabulary=64)
    found = measure_expert_reads(lambda _: None, shape, rows=(1, 4, 12), repeats=3)
    experts = [each.experts for each in found.points]
    assert experts[0] == found.per_token == 2
    assert experts == sorted(experts)
    assert experts[-1] <= found.experts
    assert 0.5 < found.expert_share < 1.0
    assert found.run.step == 2.0
    assert found.run.verification > 3.0
    assert found.run.tokens > 1.0
    assert found.points[1].independent == pytest.approx(8 * (1 - 0.75**4))
