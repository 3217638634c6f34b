"""Commands with a target alone: they work, or name a remedy that works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.cli.option_values import named_lane
from specviz.comparison.plan import Lane
from specviz.record.pairs import CHAT_PAIR, PairSpec
from specviz.record.run_config import RunConfig
from specviz.tune import greedy
from tests.cli.tiny_models import PROMPT, home
from tests.engine.models import write_pair

__all__ = ["home"]  # fixture

SHORT = ["--max-new-tokens", "8", "--threads", "1"]
PROMPTED = ["--prompt", PROMPT, *SHORT]
COMMANDS = {
    "run": ["run", PROMPT, *SHORT, "--no-baseline", "--no-keep"],
    "audit": ["audit", "--runs", "2", "--threads", "1"],
    "tune": ["tune", *PROMPTED, "--temperatures", "0.7"],
    "score": ["score", *PROMPTED],
    "compare": ["compare", *PROMPTED, "--no-baseline", "--repeats", "1", "--lane", "gamma=2"],
}


@pytest.fixture(autouse=True)
def short_greedy_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the texts that an audit compares at temperature 0."""
    monkeypatch.setattr(greedy, "GREEDY_TOKENS", 8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pair that is deep enough for an early exit."""
    return write_pair(tmp_path_factory.mktemp("pair"), num_hidden_layers=2)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(arguments) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("name", ["run", "audit", "tune", "compare"])
def test_prompt_lookup_drafts_for_a_target_alone(name: str, folder: Path) -> None:
    lane = ["--lane", "gamma=3"] if name == "compare" else []
    assert main([*COMMANDS[name], *lane, "--target", str(folder / "target")]) == 0


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("run", ["--drafter", "model"]),
        ("audit", ["--drafter", "model"]),
        ("audit", ["--break", "match"]),
        ("score", []),
    ],
)
def test_remedies_for_a_missing_draft_work(
    name: str, asked: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, draft = [*COMMANDS[name], *asked], ["--draft", str(folder / "draft")]
    target = ["--target", str(folder / "target")]
    error = refused([*arguments, *target], capsys)
    assert "--target needs --draft" in error
    assert "both --target and --draft" in error
    assert main([*arguments, *target, *draft]) in (0, 1)  # 1: the audit found the injected bug
    lookup = re.findall(r"--drafter prompt-lookup", error)
    assert len(lookup) == (asked == ["--drafter", "model"])
    for each in lookup:
        assert main([*COMMANDS[name], *target, *each.split()]) == 0
    with_chat_model = refused([*arguments, "--pair", CHAT_PAIR], capsys)
    assert f"{CHAT_PAIR} has no draft" in with_chat_model


@pytest.mark.parametrize("lane", ["drafter=model", f"pair={CHAT_PAIR},drafter=model"])
def test_the_remedy_for_a_lane_without_a_draft_works(
    lane: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*COMMANDS["compare"], "--target", str(folder / "target")]
    error = refused([*arguments, "--lane", lane], capsys)
    assert "a target but no draft" in error
    (lookup,) = re.findall(r"drafter=prompt-lookup", error)
    assert main([*arguments, "--lane", f"gamma=3,{lookup}"]) == 0
    assert main([*arguments, "--lane", f"drafter=model,draft={folder / 'draft'}"]) == 0


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        (["--num-drafts", "2"], []),
        (["--branching", "2x1"], []),
        (["--dynamic-tree", "2x3"], []),
        (["--draft-until", "confidence:0.4"], ["--drafter", "early-exit:1"]),
    ],
)
def test_methods_that_need_a_draft_model_say_so(
    asked: list[str], remedy: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, draft = ["--target", str(folder / "target")], ["--draft", str(folder / "draft")]
    error = refused([*COMMANDS["run"], *target, *asked], capsys)
    assert "Use a draft model" in error
    assert main([*COMMANDS["run"], *target, *draft, *asked]) == 0
    assert all(each.removeprefix("--").split(":")[0] in error for each in remedy)
    if remedy:
        assert main([*COMMANDS["run"], *target, *asked, *remedy]) == 0


def test_a_lane_with_a_draft_uses_it_though_the_default_pair_has_none() -> None:
    default = Lane(spec=PairSpec(target="TARGET"), config=RunConfig(drafter="prompt-lookup"))
    assert named_lane("draft=DRAFT", default).config.drafter == "model"
    assert named_lane("gamma=3", default).config.drafter == "prompt-lookup"
    assert named_lane("draft=DRAFT,drafter=suffix", default).config.drafter == "suffix"
