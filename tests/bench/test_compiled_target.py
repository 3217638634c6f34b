"""The compiled target writes the target's text, with static addresses for all but the token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.bench.compiled_target import CompiledTarget
from specviz.bench.static_llama import cannot_compile
from specviz.engine import decode_plainly
from specviz.engine.model.pair import Pair
from specviz.record.run_config import RunConfig
from tests.engine.asking import load
from tests.engine.models import pair_of, tiny_model, write_pair

PROMPT = tuple(range(3, 40))


def plainly(pair: Pair, count: int) -> tuple[int, ...]:
    config = RunConfig(temperature=0.0, max_new_tokens=count, ignore_eos=True)
    return tuple(decode_plainly(pair, PROMPT, config))


def test_writes_the_targets_text_repeatedly(pair: Pair) -> None:
    compiled = CompiledTarget(pair, len(PROMPT) + 20, "eager")
    for count in (20, 7):
        written = compiled.write(PROMPT, count)
        assert written.token_ids == plainly(pair, count)
        assert written.seconds > 0
    assert compiled.seconds > 0
    assert compiled.graphs_left_out == 0


def test_reads_a_long_prompt_in_parts(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specviz.bench.compiled_target._READ_AT_ONCE", 5)
    compiled = CompiledTarget(pair, len(PROMPT) + 12, "eager")
    assert compiled.write(PROMPT, 12).token_ids == plainly(pair, 12)


def test_weights_and_caches_have_static_addresses(pair: Pair) -> None:
    """Otherwise CUDA graphs would be skipped, or all weights copied at every step."""
    moving: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        for node in graph.graph.nodes:
            static = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
            if node.op == "placeholder" and static is None:
                moving.append(node.name)
        return graph.forward

    made: Any = backend
    CompiledTarget(pair, 16, made)
    assert moving == ["l_token_ids_", "l_places_"]


def test_supports_grouped_heads_and_biases(tmp_path: Path) -> None:
    pair = load(write_pair(tmp_path, "qwen2"), step="lean")
    compiled = CompiledTarget(pair, len(PROMPT) + 12, "eager")
    assert compiled.write(PROMPT, 12).token_ids == plainly(pair, 12)


@pytest.mark.parametrize("family", ["mistral", "qwen3"])
def test_reports_unsupported_models(family: str) -> None:
    pair = pair_of(tiny_model(family), None, step="lean")
    assert cannot_compile(pair.target_weights) == "it has sliding windows or head norms"
