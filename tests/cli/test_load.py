"""``load``: its refusals, files, and a short sweep against a scripted engine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.load import order
from specviz.load.stored import sweep_to_json
from specviz.record.load_run import LoadSettings
from tests.load.scripted_engine import ScriptedEngine, info_at, running
from tests.load.sweeps import sweep_of
from tests.load.test_results import AIPERF

SECONDS = 0.25
SHORT = ["--concurrency", "2", "--seconds", f"{SECONDS}", "--ramp", "0", "--max-new-tokens", "6",
         "--temperature", "0", "--no-keep"]  # fmt: skip


@pytest.fixture(autouse=True)
def short_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure one unit, in windows below the limit."""
    monkeypatch.setattr("specviz.load.planning.PILOT", 1)
    monkeypatch.setattr("specviz.load.planning.MOST_UNITS", 1)
    check = order.check_settings

    def check_longer(settings: LoadSettings) -> None:
        longer = settings.seconds == SECONDS
        check(replace(settings, seconds=1.0) if longer else settings)

    monkeypatch.setattr(order, "check_settings", check_longer)


def fast() -> ScriptedEngine:
    return ScriptedEngine(step=lambda users: 0.01 * users, per_step=3)


def plain() -> ScriptedEngine:
    return ScriptedEngine(step=lambda _: 0.01)


def failure(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


def test_a_sweep_prints_one_json_object_and_saves_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {name: tmp_path / f"it.{name}" for name in ("out", "csv", "html")}
    files = [word for name, path in places.items() for word in (f"--{name}", str(path))]
    with running(fast()) as server, running(plain()) as alone:
        addresses = [server.address, "--baseline", alone.address]
        assert main(["load", *addresses, "--prompt", "Secret", *SHORT, *files, "--json"]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert report["complete"]
    assert [(each["lane"], each["level"]) for each in report["levels"]] == [(0, 2), (1, 2)]
    assert any("share" in each for each in report["words"]["warnings"])  # the cores
    assert "at most 10,000 requests" in printed.err
    assert "Secret" not in printed.out + printed.err + places["out"].read_text()
    # A saved sweep gives the same report.
    assert main(["load", str(places["out"]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == report
    assert len(places["csv"].read_text().splitlines()) == 1 + 4  # blocks


def test_a_file_of_aiperf_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profile_export_aiperf.json"
    path.write_text(json.dumps(AIPERF))
    saved = tmp_path / "sweep.json"
    saved.write_text(sweep_to_json(sweep_of((1, 4), (lambda _: 2.0,))))
    assert main(["load", str(saved), str(path)]) == 0
    shown = capsys.readouterr().out
    assert "No break-even up to 4 users" in " ".join(shown.split())
    assert "AIPerf: profile_export_aiperf.json, some/model" in shown
    assert "1150.9" in shown


def test_another_machine_needs_a_confirmation_that_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["load", "http://192.0.2.1:8000", "--most-requests", "500", "--concurrency", "4"]
    assert "another machine" in failure(words, capsys)
    monkeypatch.setattr("specviz.cli.load._server", lambda _options, at, _key: info_at(at))
    shown = failure([*words, "--allow-remote", "--max-new-tokens", "64"], capsys)
    assert "at most 500 requests" in shown
    assert "32,000 tokens in total" in shown
    assert "--confirm" in shown


def test_an_address_with_two_models_needs_a_choice(capsys: pytest.CaptureFixture[str]) -> None:
    with running(fast(), models=("one", "two")) as server:
        assert "serves 2 models: one, two" in failure(["load", server.address], capsys)


def test_without_a_target_alone_there_is_no_speedup(capsys: pytest.CaptureFixture[str]) -> None:
    with running(fast()) as server:
        assert main(["load", server.address, *SHORT, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert all(each["speedup"] is None for each in report["levels"])
    assert any("no target alone" in each for each in report["words"]["warnings"])


def test_an_engine_that_fails_keeps_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    refusing = ScriptedEngine(step=lambda _: 0.01, fault="429")
    with running(refusing) as server, running(plain()) as alone:
        assert main(["load", server.address, "--baseline", alone.address, *SHORT]) == 2
    printed = capsys.readouterr()
    assert "429" in printed.err
    assert "target alone" in printed.out


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        (["--concurrency", "1.5"], "whole numbers"),
        (["--concurrency", "nan"], "levels of load are nan"),
        (["--concurrency", "one"], "--concurrency is 'one'"),
        (["--rate", "0"], "levels of load are 0"),
        (["--seconds", "nan"], "nan seconds"),
        (["--starts", "2"], "--starts needs --restart-command"),
        (["--restart-command", "true {gamma}", "--gammas", "x"], "--gammas is 'x'"),
        (["--most-requests", "0"], "maximum number of requests"),
    ],
)
def test_bad_options(words: list[str], culprit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert culprit in failure(["load", "http://127.0.0.1:9", *words], capsys)
