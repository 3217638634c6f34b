"""Observed, accounted and forecast speedups of runs in processes of their own."""

from __future__ import annotations

import contextlib
import io
import itertools
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from specviz.bench import accounting
from specviz.bench.accounting import AccountedRun, coverage, measure_accounting, summary_rows
from specviz.bench.accounting_plot import accounting_svg
from specviz.cli import main
from specviz.errors import PairError
from tests.cli.tiny_models import models

RUN = AccountedRun(
    body="none", step="auto", gamma=2, kind="story", prompt="a", seed=0,
    observed=2.0, observed_low=1.9, observed_high=2.1, accounted=2.0, round_cost_error=0.04,
    forecast=1.9, forecast_low=1.5, forecast_high=2.5,
)  # fmt: skip
MISSED = replace(RUN, forecast_low=2.2)


def test_summarises_each_body_and_step() -> None:
    ratios = (0.5, 1.0, 1.06)
    runs = [replace(RUN, accounted=2.0 / ratio) for ratio in ratios]
    runs += [replace(RUN, body="90M", accounted=None)]
    plain, enlarged = summary_rows(runs)
    assert (plain["runs"], plain["from"], plain["to"]) == (3, 0.5, pytest.approx(1.06))
    assert plain["observed_over_accounted"] == pytest.approx(1.0)
    assert plain["within_errors"] == "2 of 3"  # 6 % is within 5 % and 4 % together, 50 % is not
    assert (enlarged["runs"], enlarged["observed_over_accounted"]) == (0, None)


def test_coverage_counts_the_runs_of_one_prompt_as_one_cluster() -> None:
    texts = "abcdefgh"
    spread = [replace(each, prompt=text) for text in texts for each in (RUN, RUN, RUN, MISSED)]
    lumped = [
        replace(MISSED if text in "ab" else RUN, prompt=text, seed=seed)
        for text in texts
        for seed in range(4)
    ]
    for runs in (spread, lumped):
        assert (coverage(runs)["runs"], coverage(runs)["covered"]) == (32, 0.75)
    assert coverage(spread)["error"] == pytest.approx(0)
    assert coverage(lumped)["error"] == pytest.approx(1.96 * (0.25 * 0.75 / 7) ** 0.5)
    assert coverage([RUN])["width"] == pytest.approx(2.5 / 1.5)
    assert coverage([replace(RUN, forecast_low=None)])["runs"] == 0


def test_draws_a_dot_per_ratio_and_a_line_per_forecast() -> None:
    runs = [RUN, MISSED, replace(RUN, accounted=None), replace(RUN, forecast_low=None)]
    picture = ElementTree.fromstring(accounting_svg(runs))
    classes = [each.get("class") for each in picture.iter()]
    counts = [classes.count(kind) for kind in ("run", "covered", "missed", "median")]
    assert counts == [3, 2, 1, 1]
    texts = [each.text for each in picture.iter() if each.tag.endswith("text")]
    assert "3 runs; 2 intervals contain the observed speedup" in texts
    assert ElementTree.fromstring(accounting_svg([])) is not None


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep one γ, one prompt and short runs."""
    monkeypatch.setattr(accounting, "GAMMAS", (2,))
    monkeypatch.setattr(accounting, "_STEPS", ("auto",))
    monkeypatch.setattr(accounting, "_SECONDS", 0.5)
    monkeypatch.setattr(accounting, "read_presets", accounting_presets)


def accounting_presets() -> Sequence[accounting.Preset]:
    return [accounting.Preset(kind="story", title="one", text="Once upon a time")]


@pytest.mark.thorough
@pytest.mark.parametrize("in_process", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_runs_take_their_costs_from_runs_of_other_processes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, in_process: bool
) -> None:
    """A process takes seconds to start, so the usual test makes the runs in this one."""
    small(monkeypatch)
    if in_process:
        monkeypatch.setattr(accounting, "_run_specviz", run_here)
        monkeypatch.setattr("specviz.measure.step_costs._process", lambda _: next(PROCESSES))
    said: list[str] = []
    options = models(folder)
    result, runs = measure_accounting(options, "none", 1, said.append)
    assert (len(said), len(runs)) == (2, 1)
    assert said[0].startswith("1 of 2: auto step, body none, γ 2, story: observed ")
    assert said[0].endswith("accounted unknown")  # its costs come from itself
    assert all(each.accounted for each in runs)
    assert sum(row["runs"] for row in result["rows"]) == len(runs)


PROCESSES = map(str, itertools.count())


def run_here(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), errors.getvalue())


def test_names_the_message_of_a_failed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    monkeypatch.setattr(accounting, "_run_specviz", run_here)
    with pytest.raises(PairError, match=r"A run of the pair failed: .*gone"):
        measure_accounting(["--target", str(tmp_path / "gone")], "none", 1, lambda _: None)
