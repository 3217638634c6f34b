"""Bodies on the command line: options, printed figures and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.cli.option_values import spec_from
from specviz.cli.options import build_parser
from specviz.store import save_trace
from tests.traces import BODY, full_trace, with_bodies


@pytest.mark.parametrize(
    ("command", "default"),
    [
        (["run", "Once"], "none"),
        (["bench"], "90M"),
        (["compare", "--lane", "gamma=2", "--prompt", "Once"], "none"),
    ],
)
def test_commands_accept_bodies(command: list[str], default: str) -> None:
    requested = [*command, "--target-body", "0.09b", "--draft-body", "Llama-3.2-1B"]
    spec = spec_from(build_parser().parse_args(requested))
    assert (spec.target_body, spec.draft_body) == ("90M", "llama-3.2-1b")
    assert spec_from(build_parser().parse_args(command)).target_body == default


def test_refuses_an_unknown_body(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "Once", "--target-body", "huge"]) != 0
    output = capsys.readouterr().err
    assert "'huge' is not a simulated size" in output
    assert "smollm2-135m" in output


def test_show_prints_the_bodies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.json"
    save_trace(with_bodies(full_trace(), target=BODY, bandwidth=1e12), file)
    assert main(["show", str(file)]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "each step costs as much as in a model of 88 M" in output
    assert "bytes per step 352 MB" in output
    assert "speedup is overstated" in output
    assert "target enlarged to 88 M" in output


def test_json_has_the_figures_of_the_bodies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.json"
    save_trace(with_bodies(full_trace(), target=BODY, bandwidth=1e12), file)
    assert main(["show", str(file), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["models"]["target"]["body"]["step_bytes"] == 352_398_336
    assert record["metrics"]["parameters"] == 88_099_584
    assert 0 < record["metrics"]["bandwidth_share"] < 0.5
    bodies = record["bodies"]
    assert (bodies["flattered"], bodies["own_speedup"], bodies["bandwidth"]) == (True, None, 1e12)
    save_trace(full_trace(), file)
    assert main(["show", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bodies"] is None
