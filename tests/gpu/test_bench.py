"""A small ``bench --gpu`` on the device measures every figure of every lane."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specviz.cli import main

pytestmark = pytest.mark.gpu

SMALL = ("--bodies", "none/90M", "--contexts", "64", "--gammas", "3", "--repeats", "1", "--quick")


def test_the_whole_command_runs_on_the_device(
    device: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_TIMING_SECONDS", "1")
    assert main(["bench", "--gpu", "--device", device, *SMALL, "--json"]) == 0
    printed = capsys.readouterr()
    result: dict[str, Any] = json.loads(printed.out)
    assert result["notices"] == [], printed.err
    figures = {each["name"]: each["value"] for each in result["figures"]}
    assert None not in figures.values(), figures
    assert {row["lane"].split(",")[-1].strip() for row in result["rows"]} >= {"compiled", "eager"}
    if device == "cuda":
        assert 0 < figures["share_compiled"] < 1
        everywhere = [each for each in result["asked"] if each["for_bodies"] is None]
        assert all(each["met"] is not None for each in everywhere), everywhere
    print(json.dumps(figures, indent=1))
