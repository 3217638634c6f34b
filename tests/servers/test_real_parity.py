"""Acceptance of a recorded llama.cpp that served the embedded EAGLE-3 head, right and wrong.

The answers and counters are those of the real engine; ``check_parity`` records them.
"""

from __future__ import annotations

import pytest

from specviz.engine import Pair
from specviz.engine.loading.loading import load_pair
from specviz.tune.parity_values import EngineMeasurement, parity_verdict
from tests.servers.check_parity import CASES, GAMMA, SPEC, measured, report_of
from tests.servers.parity_tapes import replayed_parity


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair(SPEC)


def measured_of(name: str) -> EngineMeasurement:
    with replayed_parity(name) as server:
        return measured(server.address)


def test_the_right_head_accepts_as_many_candidates_as_here(pair: Pair) -> None:
    measurement = measured_of("healthy")
    report = report_of(measurement, pair)
    assert measurement.title.startswith("llama.cpp")
    assert (report.gamma, report.num_prompts, report.same_text) == (GAMMA, 16, 16)
    alone, repeated, concurrent = report.conditions
    assert alone.engine == repeated.engine
    assert abs(alone.change) < 0.005
    # llama.cpp shortens some last drafts in another way.
    assert alone.engine.accepted == pytest.approx(alone.reference.accepted, rel=0.02)
    (finding,) = report.findings  # llama.cpp's own: it drafts badly in all slots but one
    assert finding.kind == "condition"
    assert "when several requests run at once" in finding.sentence
    assert concurrent.high < -0.1
    assert parity_verdict(report).startswith("The engine accepts less under some conditions")


@pytest.mark.parametrize(
    "name",
    [
        "one layer",
        pytest.param("layers", marks=pytest.mark.thorough),
        pytest.param("residual", marks=pytest.mark.thorough),
    ],
)
def test_a_wrong_entry_in_the_served_heads_files_is_found(name: str, pair: Pair) -> None:
    report = report_of(measured_of(name), pair)
    assert CASES[name][1] in " ".join(each.sentence for each in report.findings)
