"""Runs of tiny float32 pairs on any device, to compare them with those on the CPU."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from specviz.engine import Pair
from specviz.record.forks import Fork
from specviz.record.pairs import GRAPHED
from specviz.record.trace import Round
from tests.engine.heads.test_head_runs import SHORT, WRITERS, settings, with_head
from tests.engine.heads.tiny_heads import LAYERS, VOCABULARY
from tests.engine.models import noisy_copy, pair_of, tiny_model
from tests.engine.playing import EXACT_METHODS, config, play

# The rounds of these run entirely on the device.
GRAPHED_METHODS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "seed": 3},
    "over-accept": {"rule": "over-accept", "epsilon": 0.1},
    "over-accept from the target": {"rule": "over-accept", "epsilon": 0.1, "residual": "target"},
    "greedy over-accept": {"temperature": 0.0, "rule": "over-accept", "epsilon": 0.1},
    "typical": {"rule": "typical", "epsilon": 0.09},
    "no record": {"record": False},
}
# The host drives the rounds of these.
STEPWISE_METHODS = EXACT_METHODS | {
    "greedy tree": {"branching": (3, 2, 1), "temperature": 0.0},
    "sure": {"draft_until": "confidence:0.5"},
    "prompt lookup": {"drafter": "prompt-lookup"},
}
_TREES: list[dict[str, Any]] = [{"branching": (3, 2, 1)}, {"dynamic_tree": (4, 12)}]
# Kinds of heads, each with the settings of the trees that it is tested with.
HEADS = {kind: _TREES if kind in ("eagle", "eagle3", "medusa") else [] for kind in WRITERS}


@cache
def pair_on(device: str, step: str) -> Pair:
    target = tiny_model("llama")
    return pair_of(target, noisy_copy(target, 0.05), step=step, device=device)


def rounds_of(pair: Pair, method: dict[str, Any], length: int = 24) -> list[Round]:
    return play(pair, config(gamma=4, max_new_tokens=length, **method))


def forked_methods(pair: Pair) -> list[dict[str, Any]]:
    """Methods that change a draw and, at temperature 0, a token of the pair's rounds."""
    changed: list[dict[str, Any]] = []
    changes: list[tuple[float, dict[str, Any]]] = [(1.0, {"uniform": 0.25}), (0.0, {"instead": 7})]
    for temperature, change in changes:
        judged = rounds_of(pair, {"temperature": temperature})[2].candidates[0]
        fork = Fork(round=2, place=0, token_id=judged.token_id, **change)
        changed.append({"temperature": temperature, "forks": (fork,)})
    return changed


def head_rounds(
    device: str, kind: str, folder: Path, *, length: int = 20, **changes: Any
) -> list[Round]:
    """The rounds of a head on a target whose rounds may also run entirely on the device."""
    pair = with_head(replace(target_on(device)), WRITERS[kind](folder))
    return play(pair, settings(kind, max_new_tokens=length, **changes), SHORT)


@cache
def target_on(device: str) -> Pair:
    target = tiny_model("llama", vocabulary=VOCABULARY, num_hidden_layers=LAYERS, sigma=0.2)
    return pair_of(target, None, step=GRAPHED, device=device)
