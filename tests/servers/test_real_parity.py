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


@pytest.fixture
def without_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not try other settings of the head, which takes most of the time."""
    monkeypatch.setattr("specviz.tune.parity._NEAR", 10.0)


@pytest.mark.usefixtures("without_other_settings")
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


@pytest.mark.usefixtures("without_other_settings")
def test_one_wrong_layer_is_found(pair: Pair) -> None:
    report = report_of(measured_of("one layer"), pair)
    assert [each.kind for each in report.findings] == ["lower", "positions", "condition"]
    assert CASES["one layer"][1] in report.findings[1].sentence


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["layers", "residual"])
def test_the_wrong_setting_is_named(name: str, pair: Pair) -> None:
    report = report_of(measured_of(name), pair)
    assert "setting" in [each.kind for each in report.findings]
    assert CASES[name][1] in " ".join(each.sentence for each in report.findings)
