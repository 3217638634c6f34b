"""The real command line on a tiny pair in folders: what it prints, saves and keeps.

Runs are processes of their own where that matters; the rest go through ``main`` in this one.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.store import load_trace
from tests.cli.tiny_models import PROMPT, folder, forked, home, models
from tests.engine.asking import load
from tests.killing import KilledCommand
from tests.step_costs import place_step_costs

__all__ = ["folder", "home"]  # fixtures

KEYS = {"pair", "device", "dtype", "config", "text", "token_ids", "rounds", "metrics"}
METRICS = {
    "num_rounds", "num_drafted", "num_tested", "num_accepted", "alpha_observed",
    "alpha_expected", "draft_acceptance_rate", "tau", "alpha_by_position", "c", "v",
    "tokens_per_second", "baseline_tokens_per_second", "speedup_observed",
    "speedup_end_to_end", "speedup_ideal", "speedup_accounted", "speedup_forecast", "ttft_ms",
}  # fmt: skip

Record = dict[str, Any]


@pytest.fixture(scope="module")
def saved(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Record, Path]:
    """Return the JSON object and the saved trace of one real run in a process."""
    out = tmp_path_factory.mktemp("saved") / "trace.json"
    settings = ["--gamma", "4", "--max-new-tokens", "40", "--ignore-eos", "--json"]
    asked = ["run", PROMPT, *models(folder), *settings, "--out", str(out)]
    code, printed, errors = forked(asked, out.parent)
    assert code == 0
    *measuring, saving = errors.splitlines()  # a run with few slices is followed by a table
    assert all(each.startswith("measuring step costs: about 10 s at most") for each in measuring)
    assert saving == f"saved {out}"
    return json.loads(printed), out


@pytest.fixture(scope="module")
def costs_known(saved: tuple[Record, Path], folder: Path) -> None:
    """Store the step costs of both steps; only the saved run measures its own."""
    for step in ("lean", "library"):
        place_step_costs(load(folder, step=step))


def record_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Record:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# What a run prints


def test_json_has_every_key(saved: tuple[Record, Path]) -> None:
    record, _ = saved
    assert record.keys() >= KEYS
    assert record["metrics"].keys() >= METRICS
    unknown = {name for name in METRICS if record["metrics"][name] is None}
    assert unknown == {"speedup_forecast"}  # the prompt is not a preset, so there is no forecast
    assert (record["device"], record["dtype"]) == ("cpu", "float32")
    assert (record["config"]["gamma"], record["config"]["max_new_tokens"]) == (4, 40)


def test_forks_a_run_from_its_record(
    saved: tuple[Record, Path], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, _ = saved
    number, place, judged = next(
        (entry["index"], place, each)
        for entry in record["rounds"]
        for place, each in enumerate(entry["candidates"])
        if each["verdict"] == "rejected" and each["target_prob"] > 0
    )
    fork = f"{number + 1}:{place + 1}:{judged['token_id']}=0"
    settings = ["--gamma", "4", "--max-new-tokens", "40", "--ignore-eos", "--no-baseline"]
    command = ["run", PROMPT, *models(folder), *settings, "--fork", fork]
    forked = record_of(command, capsys)
    there = forked["rounds"][number]["candidates"][place]
    assert (there["verdict"], there["overruled"]) == ("accepted", judged["uniform"])
    kept = sum(len(entry["emitted"]) for entry in record["rounds"][:number]) + place
    assert forked["token_ids"][:kept] == record["token_ids"][:kept]
    assert forked["token_ids"][kept] == judged["token_id"] != record["token_ids"][kept]
    assert main([*command[:-1], fork.replace(f":{judged['token_id']}=", ":0=")]) == 2
    assert "This is not the run that was forked" in capsys.readouterr().err


def test_counts_match_the_rounds(saved: tuple[Record, Path]) -> None:
    record, _ = saved
    rounds, figures = record["rounds"], record["metrics"]
    candidates = [each for entry in rounds for each in entry["candidates"]]
    verdicts = [each["verdict"] for each in candidates]
    accepted, rejected = verdicts.count("accepted"), verdicts.count("rejected")
    assert figures["num_rounds"] == len(rounds)
    assert figures["num_drafted"] == len(candidates)
    assert figures["num_tested"] == accepted + rejected
    assert figures["num_accepted"] == accepted > 0
    assert figures["alpha_observed"] == pytest.approx(accepted / (accepted + rejected))
    assert figures["draft_acceptance_rate"] == pytest.approx(accepted / len(candidates))
    whole = [entry for entry in rounds if entry["cut"] is None]
    emitted = sum(len(entry["emitted"]) for entry in whole)
    assert figures["tau"] == pytest.approx(emitted / len(whole))
    tokens = [token for entry in rounds for token in entry["emitted"]]
    assert record["token_ids"] == tokens
    assert len(tokens) == 40


def test_every_verdict_replays(saved: tuple[Record, Path]) -> None:
    record, _ = saved
    for entry in record["rounds"]:
        for each in entry["candidates"]:
            passes = each["uniform"] * each["draft_prob"] < each["target_prob"]
            assert each["verdict"] == "discarded" or passes == (each["verdict"] == "accepted")


def test_speeds_are_consistent(saved: tuple[Record, Path]) -> None:
    figures = saved[0]["metrics"]
    rates = figures["tokens_per_second"] / figures["baseline_tokens_per_second"]
    assert figures["speedup_observed"] == pytest.approx(rates)
    cost = 4 * figures["c"] + figures["v"] + (figures["overhead"] or 0)
    assert figures["speedup_accounted"] == pytest.approx(figures["tau"] / cost)
    assert min(figures["ttft_ms"], figures["speedup_end_to_end"], figures["speedup_ideal"]) > 0


def test_show_prints_the_same_json(
    saved: tuple[Record, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    record, out = saved
    assert record_of(["show", str(out)], capsys) == record
    assert main(["show", str(out)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    figures = record["metrics"]
    assert f"τ, tokens per round {figures['tau']:.2f}" in shown
    assert f"α observed {figures['alpha_observed']:.3f}" in shown
    assert f"40 tokens in {figures['num_rounds']} rounds, length limit" in shown


# Other settings


def test_prompt_lookup_needs_only_a_target(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "trace.json"
    target = ["--target", str(folder / "target"), "--threads", "1", "--out", str(out)]
    lookup = ["--drafter", "prompt-lookup", "--max-new-tokens", "30", "--ignore-eos"]
    record = record_of(["run", PROMPT, *target, *lookup], capsys)
    assert record["models"]["draft"] is None
    assert len(record["token_ids"]) == 30
    assert record["metrics"]["num_drafted"] > 0
    assert record["metrics"]["c"] == 0.0
    assert record_of(["show", str(out)], capsys) == record


@pytest.mark.usefixtures("costs_known")
@pytest.mark.parametrize("temperature", ["0", "0.7"])
def test_both_steps_emit_the_same_tokens(
    folder: Path, temperature: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["--temperature", temperature, "--dtype", "float32", "--max-new-tokens", "48"]
    run = ["run", PROMPT, *models(folder), *settings, "--no-baseline"]
    lean, library = (record_of([*run, "--step", step], capsys) for step in ("lean", "library"))
    assert lean["models"]["target"]["step"] == "lean"
    assert library["models"]["target"]["step"] == "library"
    assert lean["token_ids"] == library["token_ids"]
    assert len(set(lean["token_ids"])) >= 8
    drawn = [[entry["emitted"] for entry in record["rounds"]] for record in (lean, library)]
    assert drawn[0] == drawn[1]


def test_the_same_seed_gives_the_same_run(
    saved: tuple[Record, Path], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, out = saved
    settings = ["--gamma", "4", "--max-new-tokens", "40", "--ignore-eos", "--no-baseline"]
    again = record_of(["run", PROMPT, *models(folder), *settings], capsys)
    assert again["token_ids"] == record["token_ids"]
    assert again["models"] == record["models"]
    other = record_of(["run", PROMPT, *models(folder), *settings, "--seed", "1"], capsys)
    assert other["token_ids"] != record["token_ids"]
    assert load_trace(out).token_ids == tuple(record["token_ids"])


# Ctrl-C


@pytest.mark.usefixtures("costs_known")
def test_ctrl_c_saves_the_rounds_so_far(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    slow = ["--gamma", "1", "--max-new-tokens", "450", "--ignore-eos", "--step", "library"]
    words = ["run", PROMPT, *models(folder), *slow, "--out", str(out)]
    command = KilledCommand("specviz.cli:main", words=words, folder=tmp_path)
    run = command.start()
    deadline = time.monotonic() + 60
    while "\n    2  " not in command.out.read_text():  # until the third round
        assert time.monotonic() < deadline, command.err.read_text()
        time.sleep(0.005)
    os.kill(run.pid, signal.SIGINT)
    assert run.wait(60) == 130
    printed = command.out.read_text()
    assert command.err.read_text() == f"saved {out}\n"
    trace = load_trace(out)
    assert (trace.finish, trace.baseline) == ("stopped", None)
    assert 3 <= len(trace.rounds) < 200
    assert f"{len(trace.rounds) - 1:>5}  " in printed
    assert "The target alone was not measured." in printed
