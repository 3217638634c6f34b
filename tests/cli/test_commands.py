"""The commands with a fake engine: what they print, save and return."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main, show
from specviz.errors import PairError
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.store import load_trace, save_trace
from tests.cli.fakes import FakeEngine, FakeRun, fake_bench
from tests.traces import make_costs, make_trace

REQUIRED_METRICS = {
    "num_rounds",
    "num_drafted",
    "num_tested",
    "num_accepted",
    "alpha_observed",
    "alpha_expected",
    "draft_acceptance_rate",
    "tau",
    "alpha_by_position",
    "c",
    "v",
    "tokens_per_second",
    "baseline_tokens_per_second",
    "speedup_observed",
    "speedup_end_to_end",
    "speedup_ideal",
    "speedup_accounted",
    "speedup_forecast",
    "ttft_ms",
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    save_trace(make_trace(["ard", "aaa"]), path)
    return path


@pytest.fixture
def default_sigint() -> Iterator[None]:
    """Restore the SIGINT handler: processes started in the background ignore Ctrl-C."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def press_in_round(index: int, *, times: int = 1) -> Any:
    def prepare(run: FakeRun) -> None:
        def before_round(at: int) -> None:
            for _ in range(times * (at == index)):
                press_ctrl_c()

        run.before_round = before_round

    return prepare


# run


def test_run_prints_rounds_text_and_figures_in_order(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "Once"]) == 0
    out = capsys.readouterr().out
    places = [out.index(each) for each in ("candidates", "→·w12", " w1 w2 w3 w4 w10", "speed\n")]
    assert places == sorted(places)
    assert "1.50 times as fast as the target alone (1.50 to 1.50" in out
    assert "prompt ids" not in out


def test_prints_each_round_before_requesting_the_next(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[str] = []

    def prepare(run: FakeRun) -> None:
        run.before_round = lambda _index: printed.append(capsys.readouterr().out)

    engine.prepare = prepare
    main(["run", "Once"])
    assert "candidates" in printed[0]
    assert printed[1].startswith("    0  ")
    assert printed[2].startswith("    1  ")


def test_json_prints_one_object_only(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "Once", "--json"]) == 0
    printed = capsys.readouterr()
    record = json.loads(printed.out)
    assert (record["pair"], record["device"], record["dtype"]) == ("toy", "cpu", "float32")
    assert record["config"]["gamma"] == 2  # of the embedded pair at its own size
    assert record["token_ids"][:3] == [10, 11, 12]
    assert record["text"].startswith(" w10 w11")
    assert record["prompt_ids"] == [1, 2, 3, 4]
    assert (record["finish"], record["notices"]) == ("length", [])
    assert [entry["extra_kind"] for entry in record["rounds"]][:2] == ["recovered", "bonus"]
    assert record["rounds"][0]["candidates"][2]["verdict"] == "rejected"
    assert record["metrics"].keys() >= REQUIRED_METRICS
    assert record["metrics"]["speedup_forecast"] is None
    assert "a library says hello" in printed.err


def test_every_setting_reaches_the_engine(engine: FakeEngine) -> None:
    settings = (
        "--draft D --target T --device cuda:1 --dtype bfloat16 --step library --threads 3 "
        "--gamma 3 --temperature 0.5 --top-k 7 --top-p 0.9 --max-new-tokens 9 --seed 4 "
        "--rule over-accept --epsilon 0.1 --residual target --stop a --stop b --ignore-eos "
        "--chat --no-baseline --measure-costs --budget 7.5"
    )
    assert main(["run", "Once", *settings.split()]) == 0
    requested = engine.requested
    assert callable(requested.pop("progress"))
    assert requested.pop("config") == RunConfig(
        gamma=3,
        temperature=0.5,
        top_k=7,
        top_p=0.9,
        max_new_tokens=9,
        seed=4,
        rule="over-accept",
        epsilon=0.1,
        residual="target",
        stop=("a", "b"),
        ignore_eos=True,
        chat=True,
    )
    assert requested == {
        "spec": PairSpec(
            draft="D", target="T", device="cuda:1", dtype="bfloat16", step="library", threads=3
        ),
        "prompt": "Once",
        "baseline": False,
        "fresh_costs": True,
        "budget": 7.5,
    }


@pytest.mark.parametrize(
    ("arguments", "needs_draft"),
    [
        ([], True),
        (["--drafter", "prompt-lookup"], True),
        (["--drafter", "prompt-lookup", "--target", "T"], False),
        (["--drafter", "prompt-lookup", "--target", "T", "--draft", "D"], True),
    ],
)
def test_prompt_lookup_with_only_a_target_needs_no_draft(
    engine: FakeEngine, arguments: list[str], needs_draft: bool
) -> None:
    main(["run", "Once", *arguments])
    assert engine.requested["spec"].has_draft is needs_draft


def test_chat_shows_the_prompt_ids(engine: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "Once", "--chat"])
    assert "  prompt ids (4): 1 2 3 4\n" in capsys.readouterr().out


def test_without_a_baseline_prints_no_verdict(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run", "Once", "--no-baseline"])
    assert "The target alone was not measured." in capsys.readouterr().out


def test_out_saves_the_trace(
    engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.json"
    assert main(["run", "Once", "--json", "--out", str(path)]) == 0
    printed = capsys.readouterr()
    assert list(load_trace(path).token_ids) == json.loads(printed.out)["token_ids"]
    assert "saved" in printed.err


@pytest.mark.parametrize(
    ("typed", "prompt"),
    [(b"Once\n", "Once"), (b"a\r\nb\r\n", "a\nb"), (b"a\n\n", "a\n"), ("é".encode(), "é")],
)
def test_a_dash_reads_standard_input(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, typed: bytes, prompt: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
    assert main(["run", "-"]) == 0
    assert engine.requested["prompt"] == prompt


@pytest.mark.parametrize(("typed", "word"), [(b"", "empty"), (b"\n", "empty"), (b"\xff", "UTF-8")])
def test_standard_input_without_a_prompt_is_refused(
    engine: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: bytes,
    word: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
    assert main(["run", "-"]) == 2
    assert word in capsys.readouterr().err
    assert engine.requested == {}


# Ctrl-C


def test_ctrl_c_stops_after_the_round_and_saves_it(
    engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.prepare = press_in_round(1)
    path = tmp_path / "trace.json"
    assert main(["run", "Once", "--out", str(path)]) == 130
    assert "7 tokens in 2 rounds, stopped by hand" in capsys.readouterr().out
    kept = load_trace(path)
    assert (len(kept.rounds), kept.finish) == (2, "stopped")


def test_ctrl_c_still_prints_json(engine: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.prepare = press_in_round(0)
    assert main(["run", "Once", "--json"]) == 130
    record = json.loads(capsys.readouterr().out)
    assert (len(record["rounds"]), record["finish"]) == (1, "stopped")


def test_a_second_ctrl_c_exits_at_once(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.prepare = press_in_round(1, times=2)
    assert main(["run", "Once"]) == 130
    printed = capsys.readouterr()
    assert "acceptance" not in printed.out
    assert printed.err.endswith("interrupted\n")


def test_ctrl_c_while_timing_the_target_alone_saves_the_run(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepare(run: FakeRun) -> None:
        run.before_baseline = press_ctrl_c

    engine.prepare = prepare
    assert main(["run", "Once"]) == 130
    out = capsys.readouterr().out
    assert "in 4 rounds" in out
    assert "The target alone was not measured." in out


def test_restores_the_previous_signal_handler(engine: FakeEngine) -> None:
    before = signal.getsignal(signal.SIGINT)
    main(["run", "Once"])
    assert signal.getsignal(signal.SIGINT) is before


# show


def test_json_reports_how_step_costs_were_measured(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def output() -> list[object]:
        assert main(["show", str(saved), "--json"]) == 0
        figures = json.loads(capsys.readouterr().out)["metrics"]
        return [figures[f"step_costs_{name}"] for name in ("drift", "samples", "interpolated")]

    assert output() == [None, None, None]
    costs = replace(make_costs(), drift=0.25)
    save_trace(make_trace(["ard"], step_costs=costs), saved)
    assert output() == [0.25, None, []]
    save_trace(make_trace(["ard"], step_costs=replace(costs, samples=3, interpolated=(4,))), saved)
    assert output() == [0.25, 3, [4]]


def test_show_replays_rounds_text_and_figures(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["show", str(saved)]) == 0
    out = capsys.readouterr().out
    assert "·w10 ✗·w11 ⋯·w12 →·w11" in out
    assert "6 tokens in 2 rounds" in out
    assert "\x1b" not in out


def test_show_writes_a_replay(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "replay.html"
    assert main(["show", str(saved), "--html", str(out)]) == 0
    assert capsys.readouterr() == ("", f"saved {out}\n")
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert main(["show", str(saved), "--html", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_replay_is_written_completely_or_not_at_all(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill_up(handle: int) -> None:
        os.ftruncate(handle, 100)
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "replay.html"
    out.write_bytes(b"the older one")
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(os, "fsync", fill_up)
    assert main(["show", str(saved), "--html", str(out)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert out.read_bytes() == b"the older one"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("place", ["", "missing/replay.html"])
def test_show_refuses_an_unwritable_replay_path(
    saved: Path, tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(saved), "--html", str(tmp_path / place)]) == 2
    assert "--html: " in capsys.readouterr().err


def test_show_in_colour(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(["show", str(saved)])
    assert "\x1b[9;38;5;172m✗·w11\x1b[0m" in capsys.readouterr().out


def test_show_prints_the_same_json_as_run(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(saved), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["token_ids"] == [10, 11, 10, 11, 12, 13]
    assert record["metrics"]["num_accepted"] == 4


def test_pauses_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = make_trace(["ard"])
    times = replace(trace.rounds[0].times, draft=1e10)
    save_trace(replace(trace, rounds=(replace(trace.rounds[0], times=times),)), tmp_path / "t")
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    assert main(["show", str(tmp_path / "t"), "--pace"]) == 0
    assert pauses == [10.0]


def test_pace_waits_the_duration_of_each_round(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(show.time, "sleep", waits.append)
    main(["show", str(saved)])
    assert waits == []
    main(["show", str(saved), "--pace"])
    assert waits == pytest.approx([0.007, 0.007])


@pytest.mark.usefixtures("default_sigint")
def test_ctrl_c_exits_a_replay(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(show.time, "sleep", lambda _seconds: press_ctrl_c())
    assert main(["show", str(saved), "--pace"]) == 130
    assert "Traceback" not in capsys.readouterr().err


# bench


def test_engine_errors_are_one_line(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_bench(monkeypatch, {})
    engine.fails = PairError("x\ny\x1b[2J is no pair.", remedy="Try another.")
    for command in (["run", "Once"], ["bench"]):
        assert main(command) == 2
        assert capsys.readouterr().err.endswith("error: x y\\x1b[2J is no pair. Try another.\n")
