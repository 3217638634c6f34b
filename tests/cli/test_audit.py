"""``audit`` on the command line: JSON, text, exit codes and bad input."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from specviz.cli import main
from specviz.record.breaks import BREAKS
from specviz.theory.evalues import Detectable
from specviz.tune.audit import Audit, AuditReport, sentences
from specviz.tune.greedy import GreedyCheck, GreedyDivergence
from tests.cli.fakes import FakeEngine
from tests.cli.test_bad_input import complaint

TIE = GreedyDivergence(
    prompt=0, place=3, token_id=5, token=" \x1b[2Jred", expected_id=6, expected=" blue",
    margin=1e-5, shortfall=1e-5, limit=1e-3,
)  # fmt: skip
QUIET = AuditReport(
    runs=300, planned=300, first_tokens=2300, accepted=1300, recovered=800, bonus=200, alpha=0.625,
    e_value=0.4, p_value=0.67, level=0.01, alarm_at=None,
    detectable=Detectable(tokens="the target's likeliest tokens", bias=0.034), temperature=0.7,
    broken=None, greedy=GreedyCheck(prompts=5, tokens=240, divergence=None),
)  # fmt: skip
LOUD = replace(QUIET, e_value=math.inf, p_value=0.0, alarm_at=17)
KEYS = {
    "first_tokens", "p_value", "greedy_equal", "broken", "alarm", "alpha", "runs", "e_value",
    "sentences", "alarm_at", "level", "detectable", "greedy",
}  # fmt: skip


def greedy(divergence: GreedyDivergence | None) -> GreedyCheck:
    return GreedyCheck(prompts=5, tokens=240, divergence=divergence)


@pytest.fixture
def requested(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Record what the command requests; a fake audit yields reports."""
    found: dict[str, Any] = {"engine": engine, "report": QUIET}

    def find(self: Audit, pair: object) -> Iterator[AuditReport]:
        found["audit"] = self
        print("a library says hello")
        yield replace(found["report"], runs=10, greedy=None)
        yield found["report"]

    monkeypatch.setattr(Audit, "find", find)
    return found


def test_passes_on_the_settings_and_the_pair(requested: dict[str, Any]) -> None:
    command = "audit --runs 20 --temperature 1.2 --gamma 3 --top-k 40 --seed 9 --break match"
    assert main([*command.split(), "--pair", "tinystories", "--threads", "1"]) == 0
    audit = requested["audit"]
    assert (audit.runs, audit.seed, audit.broken) == (20, 9, "match")
    assert (audit.config.temperature, audit.config.gamma, audit.config.top_k) == (1.2, 3, 40)
    assert requested["engine"].requested["spec"].name == "tinystories"
    assert main(["audit"]) == 0
    assert (requested["audit"].runs, requested["audit"].seed, requested["audit"].broken) == (
        300,
        0,
        None,
    )


def test_json_has_the_report(requested: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert set(found) >= KEYS
    assert (found["first_tokens"], found["p_value"], found["alarm"]) == (2300, 0.67, False)
    assert (found["greedy_equal"], found["broken"]) == (True, None)
    assert found["sentences"] == list(sentences(QUIET))
    assert "a library says hello" in printed.err
    assert "run 10 of 300" in printed.err


@pytest.mark.parametrize(
    ("report", "code", "equal"),
    [
        (QUIET, 0, True),
        (LOUD, 1, True),
        (replace(QUIET, broken="match"), 0, True),
        (replace(QUIET, greedy=greedy(TIE)), 0, False),
        (replace(QUIET, greedy=greedy(replace(TIE, shortfall=0.5))), 1, False),
    ],
)
def test_exits_with_1_unless_the_audit_passes(
    report: AuditReport,
    code: int,
    equal: bool,
    requested: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    requested["report"] = report
    assert main(["audit", "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["greedy_equal"] == equal
    assert found["passes"] == (code == 0)
    assert found["e_value"] == (None if report is LOUD else 0.4)  # JSON has no infinity
    assert found["broken"] == report.broken


def test_prints_the_verdict_first_and_then_the_evidence(
    requested: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    requested["report"] = replace(QUIET, broken="match", greedy=greedy(TIE))
    main(["audit"])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "\x1b" not in printed
    output = " ".join(printed.split())
    assert output.startswith("No deviation found in 2,300 tokens (p = 0.67).")
    assert "the target's likeliest tokens" in output
    assert "a near tie, decided by rounding" in output
    bug = BREAKS["match"]
    assert f"The loop is broken on purpose (match). {bug.does} The bug affects acceptance" in output
    assert f"acceptance only. {bug.why}" in output


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ("--break gremlin", f"'gremlin' is not a bug. Choose one of {', '.join(BREAKS)}."),
        ("--rule over-accept --epsilon 0.1", "rule=over-accept is not lossless"),
        ("--rule over-accept", "rule=over-accept is not lossless"),
        ("--runs 0", "runs is 0."),
        ("--runs many", "argument --runs: invalid int value: 'many'"),
        ("--temperature -1", "temperature is -1.0."),
        ("--text words", "unrecognized arguments: --text words"),
        ("--stop end", "--stop has no effect on an audit."),
        ("--max-new-tokens 50", "--max-new-tokens has no effect on an audit."),
        ("--fork 1:1:7=0.5", "--fork has no effect on an audit."),
        (
            "--break match --drafter prompt-lookup",
            "Bugs can be injected only into runs in which the draft model drafts one chain",
        ),
        ("--target x --drafter model", "--target needs --draft."),
        ("--seed 9000000000000000", "seed is 9000000000000000."),
    ],
)
def test_refuses_bad_input_in_one_line_before_loading_a_model(
    arguments: str, culprit: str, requested: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint(["audit", *arguments.split()], capsys).startswith(culprit)
    assert "audit" not in requested
    assert requested["engine"].requested == {}


@pytest.mark.thorough
def test_it_runs_on_the_embedded_pair(capsys: pytest.CaptureFixture[str]) -> None:
    usual = ["audit", "--threads", "1", "--temperature", "0", "--runs", "6", "--json"]
    assert main(usual) == 0
    right = json.loads(capsys.readouterr().out)
    assert (right["runs"], right["p_value"], right["greedy_equal"]) == (6, 1.0, True)
    assert main([*usual, "--break", "untrimmed-target-cache"]) == 1
    wrong = json.loads(capsys.readouterr().out)
    assert (wrong["alarm"], wrong["p_value"], wrong["greedy_equal"]) == (True, 0.0, False)
    assert wrong["greedy"]["divergence"]["shortfall"] > wrong["greedy"]["divergence"]["limit"]
