"""``bench --gpu`` with fake measurements: required device, tables, the first visit."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from specviz.bench import gpu_bench
from specviz.bench.gpu_goals import GOALS, GpuFigure, judge_goals
from specviz.bench.gpu_plan import GpuPlan
from specviz.cli import gpu_bench as command
from specviz.cli import main
from specviz.cli.first_visit import FirstVisit
from specviz.cli.gpu_bench import render_gpu_bench
from specviz.cli.terminal_text import Painter
from specviz.errors import DeviceError
from specviz.record.pairs import PairSpec

ON_CPU = ("bench", "--gpu", "--device", "cpu", "--bodies", "none/10M")


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Record what the bench requests; it measures nothing."""
    known: dict[str, Any] = {}

    def run(load: Any, plan: GpuPlan, say: Any, further: Any) -> dict[str, Any]:
        known.update(load=load, plan=plan, further=further)
        empty = ("figures", "rows", "divergences", "notices")
        return {name: [] for name in empty} | {
            "asked": judge_goals(GOALS, further),
            "environment": {},
        }

    def visit(spec: PairSpec) -> FirstVisit:
        known["visited"] = spec
        known["compiled"] = list(Path(os.environ["TRITON_CACHE_DIR"]).iterdir())
        return FirstVisit(first_round=12.5, verdict=31.25, speedup=2.0)

    monkeypatch.setattr(gpu_bench, "run_gpu_bench", run)
    monkeypatch.setattr(command, "first_visit", visit)
    return known


def test_reports_a_missing_gpu_in_one_line(
    requested: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_has_cuda", lambda: False)
    for device in ("auto", "cuda", "cuda:1"):
        assert main(["bench", "--gpu", "--device", device]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("error: bench --gpu needs a CUDA device")
        assert printed.err.count("\n") == 1
    assert requested == {}


def test_auto_selects_a_gpu(requested: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_has_cuda", lambda: True)
    assert main(["bench", "--gpu"]) == 0
    spec = requested["visited"]
    assert (spec.device, spec.step, spec.dtype) == ("cuda", "auto", "auto")
    assert (spec.draft_body, spec.target_body) == ("1B", "8B")
    assert requested["plan"].repeats == 7


def test_runs_on_a_named_cpu(requested: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ON_CPU, "--contexts", "32,64", "--gammas", "2", "--repeats", "1", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["asked"][-1]["measured"] == 31.25
    plan, spec = requested["plan"], requested["visited"]
    assert (plan.contexts, plan.gammas, plan.repeats) == ((32, 64), (2,), 1)
    assert (spec.device, spec.step, spec.target_body) == ("cpu", "graphed", "10M")
    assert [(each.name, each.value) for each in requested["further"]] == [
        ("first_round_seconds", 12.5),
        ("first_visit_seconds", 31.25),
    ]


@pytest.mark.parametrize("own", ["kernels", None])
def test_the_first_visit_finds_no_compiled_kernels(
    own: str | None, requested: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    if own:
        monkeypatch.setenv("TRITON_CACHE_DIR", own)
    assert main([*ON_CPU]) == 0
    assert requested["compiled"] == []
    assert os.environ.get("TRITON_CACHE_DIR") == own


def test_reports_a_failed_first_visit(
    requested: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(spec: PairSpec) -> FirstVisit:
        raise DeviceError("It does not fit.", remedy="Choose a smaller one.")

    monkeypatch.setattr(command, "first_visit", refuse)
    assert main([*ON_CPU]) == 0
    assert requested["further"] == ()
    out = capsys.readouterr().out
    assert "  The first visit to the dashboard at sizes none/10M failed. It does not fit." in out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--gpu", "--target-body", "30M"), "--gpu does not use --target-body"),
        (("--bodies", "1B/8B"), "--bodies needs --gpu."),
        (("--gammas", "3"), "--gammas needs --gpu."),
        (("--contexts", "256"), "--contexts needs --gpu."),
        (("--gpu", "--device", "cpu", "--gammas", "0"), "--gammas is '0'."),
        (("--gpu", "--repeats", "0"), "repeats is 0."),
        (("--plot", "runs.svg"), "--plot needs --accounting."),
        (("--accounting", "--gpu"), "--accounting cannot be combined with --gpu or --quick."),
        (("--accounting", "--gammas", "3"), "--gammas needs --gpu."),
    ],
)
def test_refuses_options_without_effect(
    given: tuple[str, ...],
    message: str,
    requested: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", *given]) == 2
    assert message in capsys.readouterr().err
    assert requested == {}


def test_tables_show_the_goals_first_and_the_first_visit_last() -> None:
    place = {"bodies": "1B/8B", "context": 256}
    figures = (
        GpuFigure(name="bandwidth", value=4.2e12, bodies="1B/8B"),
        GpuFigure(name="share_plain", value=0.875, **place),
        GpuFigure(name="record_cost", value=0.98, low=0.9625, high=0.99, gamma=5, **place),
        GpuFigure(name="free_gamma", value=8, gamma=5, **place),
        GpuFigure(name="c", value=None, gamma=5, **place),
        GpuFigure(name="first_round_seconds", value=12.5, bodies="1B/8B"),
        GpuFigure(name="first_visit_seconds", value=31.25, bodies="1B/8B"),
    )
    result = {
        "asked": judge_goals(GOALS, figures),
        "figures": [asdict(each) for each in figures],
        "rows": [{**place, "lane": "plain", "seconds": 0.5}],
        "divergences": [{**place, "lane": "compiled", "position": 7, "margin": 0.015625}],
        "notices": ["Left out: simulated sizes 1B/70B."],
        "environment": {"device": "cuda", "dtype": "bfloat16"},
    }
    lines = render_gpu_bench(Painter(colour=False, width=80), result).split("\n")
    rows = {line.split()[0]: line.split() for line in lines if line}
    assert rows["share_plain"] == ["share_plain", "0.875", "–"]
    assert rows["record_cost"] == ["record_cost", "–", "0.980", "(0.963", "to", "0.990)"]
    assert rows["free_gamma"][1:] == ["–", "8"]
    met = {row[0]: row[-1] for row in map(str.split, lines[1 : 1 + len(GOALS)])}
    assert (met["share_plain"], met["record_cost"], met["accounting"]) == ("yes", "no", "measured")
    assert "  1B/8B, 256 tokens; memory bandwidth, measured by summing an array: 4.2 TB/s" in lines
    assert lines[-4:-2] == ["  first_round_seconds  12.500", "  first_visit_seconds  31.250"]
    assert lines[-1] == "  device cuda · dtype bfloat16"
