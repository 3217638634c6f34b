"""Play whole runs of a tiny Llama pair, and compare them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from specviz.engine import Pair, speculate
from specviz.record.pairs import GRAPHED
from specviz.record.trace import Round, RoundTimes, RunConfig
from tests.engine.models import noisy_copy, pair_of, tiny_model

PROMPT = (5, 17, 101, 42, 9, 77, 200, 31, 8, 64)
STEPWISE = ("library", "lean")  # every feed is a call from the host
STEPS = (*STEPWISE, GRAPHED)
# For what the loop does with any step: the library's is the slowest by far.
OWN_STEPS = tuple(
    pytest.param(each, marks=pytest.mark.thorough) if each == "library" else each for each in STEPS
)

# Settings of methods whose texts have the target's distribution.
EXACT_METHODS: dict[str, dict[str, Any]] = {
    "block": {"rule": "block"},
    "coupled": {"rule": "coupled"},
    "match": {"rule": "match"},
    "drafts": {"num_drafts": 3},
    "drafts that differ": {"num_drafts": 3, "replacement": False},
    "tree": {"branching": (3, 2, 1)},
    "tree by matching": {"branching": (3, 2, 1), "rule": "match"},
    "dynamic tree": {"dynamic_tree": (4, 12)},
    "dynamic tree by matching": {"dynamic_tree": (4, 12), "rule": "match"},
    "early exit": {"drafter": "early-exit:1"},
}


@cache
def llama_pair(step: str) -> Pair:
    target = tiny_model("llama")
    return pair_of(target, noisy_copy(target, 0.05), step=step)


def config(**changes: Any) -> RunConfig:
    settings: dict[str, Any] = {"temperature": 1.0, "ignore_eos": True, "max_new_tokens": 60}
    return RunConfig(**(settings | changes))


def play(pair: Pair, settings: RunConfig, prompt: tuple[int, ...] = PROMPT) -> list[Round]:
    return list(speculate(pair, prompt, settings))


def tokens(rounds: list[Round]) -> tuple[int, ...]:
    return tuple(token for entry in rounds for token in entry.emitted)


def timeless(rounds: list[Round]) -> list[Round]:
    """Remove what a second run may change: times and records."""
    return [
        replace(
            entry,
            times=RoundTimes(draft=0, verify=0, other=0),
            candidates=tuple(replace(c, insight=None) for c in entry.candidates),
        )
        for entry in rounds
    ]
