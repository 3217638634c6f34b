"""``models``: the models on this machine, the drafts for one of them, and names as --target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.cli.compare import plan_from
from specviz.cli.options import build_parser
from specviz.comparison.plan import Plan
from specviz.record.pairs import PairSpec
from specviz.store.load_times import keep_load_time
from tests.local_models.conftest import home, pair

__all__ = ["home", "pair"]  # fixtures of this module


def record(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["models", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_lists_models_and_on_request_what_was_skipped(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = record([], capsys)
    names = {each["name"]: each for each in found["models"]}
    assert {"big", "small", "tiny-f32", "story:1m", "split"} <= set(names)
    assert names["tiny-f32"]["from"] == "LM Studio"
    assert names["tiny-f32"]["chat"]
    assert found["skipped"]
    assert main(["models"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in names)
    assert "mmproj" not in shown
    assert main(["models", "--skipped"]) == 0
    assert "mmproj" in capsys.readouterr().out


def test_lists_the_drafts_of_a_target(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = record(["--for", "big"], capsys)
    assert found["target"] == "big"
    by_name = {each["name"]: each["tokenizer"] for each in found["models"]}
    assert by_name["big"] == by_name["small"] != by_name["tiny-f32"]
    assert main(["models", "--for", "nothing"]) == 2
    assert "no model 'nothing'" in capsys.readouterr().err


def test_lists_the_time_of_earlier_loads(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def load_of(name: str) -> tuple[object, object]:
        (model,) = [each for each in record([], capsys)["models"] if each["name"] == name]
        return model["load_seconds"], model["earlier_loads"]

    assert load_of("big") == (None, 0)
    keep_load_time(PairSpec(target="maker/big"), 1.25)
    keep_load_time(PairSpec(target="maker/big"), 2.5)
    assert load_of("big") == ([1.25, 2.5], 2)
    assert load_of("tiny-f32") == (None, 0)
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "1.2 s to 2.5 s" in next(each for each in lines if each.startswith("big "))
    assert " –  " in next(each for each in lines if each.startswith("tiny-f32 "))


def test_a_folder_is_added_once_and_forgotten(
    home: Path, capsys: pytest.CaptureFixture[str], pair: Path
) -> None:
    added = record(["--models", str(pair)], capsys)
    assert added["folders"] == [str(pair)]
    assert "draft" in [each["name"] for each in record([], capsys)["models"]]
    assert record(["--forget", str(pair)], capsys)["folders"] == []


def test_lanes_and_further_drafts_are_named_and_use_the_chat_template(
    home: Path,
) -> None:
    def plan(*arguments: str) -> Plan:
        return plan_from(build_parser().parse_args(["compare", "--prompt", "x", *arguments]))

    lanes = ["--lane=target=big,drafter=prompt-lookup", "--lane=target=big,draft=small"]
    named = plan(*lanes)
    assert [each.spec.target for each in named.lanes] == ["maker/big"] * 2
    assert named.lanes[1].spec.draft == "maker/small"
    assert all(each.config.chat for each in named.lanes)
    assert not any(each.config.chat for each in plan("--no-chat", *lanes).lanes)
    assert not any(each.config.chat for each in plan(lanes[0] + ",chat=no", lanes[1]).lanes)
    mixed = plan(lanes[0], "--lane=drafter=suffix")  # the embedded pair has no template
    assert not any(each.config.chat for each in mixed.lanes)


def test_runs_a_model_by_name_with_prompt_lookup_and_its_template(
    home: Path, capsys: pytest.CaptureFixture[str], pair: Path
) -> None:
    record(["--models", str(pair)], capsys)
    arguments = ["--target", "target", "--max-new-tokens", "4", "--no-keep", "--no-baseline"]
    assert main(["run", "Once upon", *arguments, "--json"]) == 0
    trace = json.loads(capsys.readouterr().out)
    assert trace["config"]["drafter"] == "prompt-lookup"
    assert trace["config"]["chat"]
    assert main(["run", "Once upon", *arguments, "--json", "--no-chat"]) == 0
    assert not json.loads(capsys.readouterr().out)["config"]["chat"]
