"""Every exact method matches ``generate`` greedily in float32, in every family with rollback.

And an early exit feeds only while its target has no open nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from specviz.engine import Pair, speculate
from specviz.engine.model.steps import Step
from specviz.record.trace import DraftingCosts, Round, RunConfig
from tests.engine.models import FAMILIES
from tests.engine.playing import PROMPT, llama_pair
from tests.engine.test_families import LEAN, family_pair, prompts, written
from tests.engine.test_methods import EXACT

GAMMA = 4
COSTS = DraftingCosts(draft_first=0.1, draft_next=0.1, verify=(1.0, 1.4, 1.1, 1.2, 1.3, 1.4, 1.5))
METHODS: dict[str, dict[str, Any]] = EXACT | {
    "while it pays": {"draft_until": "cost", "gamma": 6},
    "an exit while it pays": {"drafter": "early-exit:1", "draft_until": "cost", "gamma": 6},
    "an exit that is sure": {"drafter": "early-exit:1", "draft_until": "confidence:0.3"},
    "an exit by block": {"drafter": "early-exit:1", "rule": "block"},
    "suffix": {"drafter": "suffix"},
    "prompt lookup": {"drafter": "prompt-lookup"},
}
KINDS = [*(("library", family) for family in FAMILIES), *(("lean", family) for family in LEAN)]


def cases() -> Iterator[Any]:
    """One method per family and step, in rotation; all combinations are thorough."""
    for row, (step, family) in enumerate(KINDS):
        for place, method in enumerate(METHODS):
            often = place == row % len(METHODS)
            yield pytest.param(step, family, method, marks=() if often else pytest.mark.thorough)


def greedy(method: str, length: int) -> RunConfig:
    usual = RunConfig(
        gamma=GAMMA, temperature=0.0, max_new_tokens=length, ignore_eos=True, record=False
    )
    return replace(usual, **METHODS[method])


@pytest.mark.parametrize(("step", "family", "method"), cases())
def test_every_method_matches_generate(step: str, family: str, method: str) -> None:
    pair = family_pair(family, step)
    for prompt, text in zip(prompts(), written(family), strict=True):
        run = speculate(pair, prompt, greedy(method, 50), costs=COSTS)
        rounds = list(run)
        assert run.emitted == text[:50]
        assert sum(entry.num_drafted for entry in rounds) > 0


class Watched:
    """A target's step that counts its open nodes; its exits record the count."""

    def __init__(self, step: Step, seen: list[int]) -> None:
        self._step = step
        self._seen = seen
        self._open = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)

    def branch(self, token_ids: torch.Tensor, parents: Any) -> torch.Tensor:
        self._open += len(parents)
        return self._step.branch(token_ids, parents)

    def keep(self, nodes: Any) -> None:
        self._open = 0
        self._step.keep(nodes)

    def early_exit(self, layers: int) -> Any:
        return WatchedExit(self, self._step.early_exit(layers))

    def note(self) -> None:
        self._seen.append(self._open)


class WatchedExit:
    def __init__(self, target: Watched, step: Step) -> None:
        self._target = target
        self._step = step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)

    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        self._target.note()
        return self._step.feed(token_ids, num_logits)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The target's open nodes at each feed of an exit."""
    found: list[int] = []
    fresh = Pair.target_step
    monkeypatch.setattr(
        Pair, "target_step", lambda *given, **named: Watched(fresh(*given, **named), found)
    )
    return found


EXITS = [method for method, changes in METHODS.items() if "early" in changes.get("drafter", "")]


@pytest.mark.parametrize("step", ["library", "lean"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_exit_feeds_while_the_target_has_no_open_nodes(
    seen: list[int], step: str, temperature: float
) -> None:
    pair: Pair = llama_pair(step)
    drafted = 0
    for method in EXITS:
        settings = replace(greedy(method, 40), temperature=temperature)
        rounds: list[Round] = list(speculate(pair, PROMPT, settings, costs=COSTS))
        drafted += sum(entry.num_drafted for entry in rounds)
    assert len(seen) == drafted > 50
    assert set(seen) == {0}


@pytest.mark.parametrize("step", ["library", "lean"])
def test_the_spy_detects_open_nodes(seen: list[int], step: str) -> None:
    target: Any = llama_pair(step).target_step(64)
    early = target.early_exit(1)
    target.feed(torch.tensor(PROMPT), 0)
    target.branch(torch.tensor([1, 2]), (-1, 0))
    early.feed(torch.tensor([3]), 1)
    target.keep(())
    early.feed(torch.tensor([3]), 1)
    assert seen == [2, 0]
