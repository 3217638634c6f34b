"""The head doctor names what is wrong with a head's files, and leaves a healthy head alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch

from specviz.cli import main
from specviz.engine.heads.readings import readings
from specviz.engine.loading.loading import load_pair
from specviz.errors import ConfigError
from specviz.record.pairs import PairSpec
from specviz.record.run_config import RunConfig
from specviz.tune.doctor import (
    SENTENCES,
    Doctor,
    DoctorReport,
    ReadingResult,
    advice,
    verdict,
)
from tests.engine.heads.test_head_runs import WRITERS, head_pair
from tests.engine.heads.tiny_heads import LAYERS, change_config, change_tensors

HEALTHY = PairSpec(name="tinystories-eagle3")
TARGET = HEALTHY.target_place


def examined(folder: str, tokens: int) -> DoctorReport:
    doctor = Doctor(config=RunConfig(temperature=0.7), tokens=tokens)
    spec = PairSpec(target=TARGET, draft=folder, head="eagle", threads=1)
    *_, report = doctor.find(load_pair(spec))
    assert isinstance(report, DoctorReport)
    return report


def _layers(folder: Path, change: Callable[[list[int]], list[int]]) -> None:
    key = "eagle_aux_hidden_state_layer_ids"
    stated = json.loads((folder / "config.json").read_text())[key]
    change_config(folder, **{key: change(stated)})


def _swap_halves(tensors: dict[str, torch.Tensor]) -> None:
    for name in "qkv":
        weight = tensors[f"layers.0.self_attn.{name}_proj.weight"]
        tensors[f"layers.0.self_attn.{name}_proj.weight"] = weight.roll(weight.shape[1] // 2, 1)


def _moved(by: int) -> Callable[[Path], None]:
    return lambda folder: _layers(folder, lambda ids: [each + by for each in ids])


# How to spoil a head's files, the change that cures them, and the tokens needed to see it.
FAULTS: dict[str, tuple[Callable[[Path], Any], dict[str, Any], int]] = {
    "ids + 1": (_moved(1), {"places": (2, 6, 9)}, 4096),
    "ids - 1": (_moved(-1), {"places": (2, 6, 9)}, 768),
    "reversed": (lambda f: _layers(f, lambda ids: ids[::-1]), {"places": (2, 6, 9)}, 256),
    "residual": (
        lambda f: change_config(f, norm_before_residual=True),
        {"norm_before_residual": False},
        256,
    ),
    "recycled": (lambda f: change_config(f, norm_output=True), {"recycle_normed": False}, 256),
    "halves": (lambda f: change_tensors(f, _swap_halves), {"embedding_first": False}, 256),
}
# The test of the command names and cures one fault in `make test`.
CASES = [pytest.param(name, marks=pytest.mark.thorough) for name in FAULTS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copytree(str(HEALTHY.draft_place), tmp_path / "head")


@pytest.mark.parametrize("fault", CASES)
def test_a_fault_is_named(fault: str, folder: Path) -> None:
    spoil, cure, tokens = FAULTS[fault]
    spoil(folder)
    report = examined(str(folder), tokens)
    assert not report.healthy
    assert dict(report.best.changes) == cure
    assert len(advice(report)) == 1
    assert report.best.accepted > report.results[0].accepted
    assert report.best.by_position[1] > report.results[0].by_position[1]


@pytest.mark.thorough
def test_nothing_is_changed_in_a_healthy_head() -> None:
    report = examined(str(HEALTHY.draft_place), 256)
    assert report.healthy
    assert advice(report) == ()
    assert verdict(report).startswith("Nothing to change")
    assert report.tried > 40
    own = report.results[0]
    assert 0.3 < own.by_position[0] < 0.9
    assert all(each.high < 0 for each in report.results if "recycle_normed" in dict(each.changes))


def test_the_command_exits_with_1_and_writes_what_cures_the_head(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FAULTS["recycled"][0](folder)
    given = [
        "doctor",
        "--target",
        TARGET,
        "--head",
        str(folder),
        "--tokens",
        "128",
        "--threads",
        "1",
    ]
    made = tmp_path / "config.json"
    assert main([*given, "--json", "--write", str(made)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["healthy"]
    (folder / "config.json").write_text(made.read_text())
    assert main([*given, "--json"]) == 0
    cured = json.loads(capsys.readouterr().out)
    assert cured["healthy"]
    assert cured["results"][0]["accepted"] == pytest.approx(
        next(each["accepted"] for each in found["results"] if each["changes"]), abs=1e-6
    )


def test_a_pair_without_a_head_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 2
    assert "needs a head" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="tokens is 3"):
        Doctor(config=RunConfig(), tokens=3)


@pytest.mark.parametrize("kind", WRITERS)
def test_every_setting_that_is_tried_has_words(kind: str) -> None:
    pair = head_pair(kind)
    assert pair.head is not None
    found = readings(pair.head, LAYERS)
    assert len(found) > 1
    own, changed = found[0].head.settings, set[str]()
    for each in found[1:]:
        assert each.head.settings != own
        result = ReadingResult(changes=tuple(each.changes.items()), by_position=(), accepted=0.0)
        assert len(result.words.split(", ")) >= len(each.changes)
        changed |= set(each.changes)
    for name in changed - {"places"}:
        assert all(SENTENCES[name])
    if kind == "eagle3":
        assert changed >= {name for _, cure, _ in FAULTS.values() for name in cure}
