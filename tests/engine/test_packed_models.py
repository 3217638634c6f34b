"""Models whose weights stay quantised: their steps, their logits, and lossless speculation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.engine import Pair, speculate
from specviz.engine.model.packed_weights import PackedLinear, is_packed, quantise
from specviz.record.pairs import QUANTISED
from specviz.record.trace import RunConfig
from tests.engine.models import noisy_copy, pair_of, tiny_model
from tests.engine.playing import PROMPT
from tests.engine.test_gguf import IDS, loaded, logits, write_file
from tests.engine.test_methods_in_families import COSTS, METHODS, greedy

FAMILIES = ("llama", "qwen2", "qwen3")


def packed_pair(family: str = "llama", kind: str = "Q4_1", step: str = "lean") -> Pair:
    """A tiny pair with quantised weights. The draft is a noisy copy of the target."""
    target = tiny_model(family)
    draft = noisy_copy(target, 0.2)
    for model in (target, draft):
        quantise(model, kind, lambda *_: None)
    return pair_of(target.requires_grad_(False), draft.requires_grad_(False), step=step)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1"])
def test_weights_of_a_file_stay_quantised(tmp_path: Path, family: str, kind: str) -> None:
    model = tiny_model(family)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight)
    path = write_file(tmp_path, model.requires_grad_(False), kind)
    pair, plain = loaded(path), loaded(path, dtype="float32")
    assert is_packed(pair.target)
    assert not is_packed(plain.target)
    assert pair.info.target.step == "lean"
    assert pair.info.target.parameters == plain.info.target.parameters
    assert pair.info.target.weights_sha256 != plain.info.target.weights_sha256
    assert "dequantised" not in " ".join(pair.notices)
    small, large = (
        sum(each.nbytes for each in m.parameters()) for m in (pair.target, plain.target)
    )
    assert small < 0.4 * large
    error = (logits(pair.target) - logits(plain.target)).square().mean().sqrt()
    assert error < 0.1 * logits(plain.target).std()


def test_other_types_in_a_file_are_dequantised(tmp_path: Path) -> None:
    model = tiny_model().requires_grad_(False)
    path = write_file(tmp_path, model, kind_of=lambda name: "F16" if "down" in name else "Q5_0")
    pair = loaded(path)
    kinds = {each.matrix.kind for each in pair.target.modules() if isinstance(each, PackedLinear)}
    assert kinds == {"F32", "Q5_0"}
    assert "dequantised" in " ".join(pair.notices)
    assert "F16" in " ".join(pair.notices)
    assert pair.info.target.step == "lean"


@pytest.mark.parametrize("kind", [each.upper() for each in QUANTISED])
def test_logits_do_not_depend_on_how_tokens_are_fed(kind: str) -> None:
    pair = packed_pair(kind=kind)
    ids = torch.tensor(PROMPT * 4)[:14]
    together, alone, tree = (pair.target_step(64) for _ in range(3))
    expected = together.feed(ids, len(ids))
    assert torch.equal(torch.cat([alone.feed(each[None], 1) for each in ids]), expected)
    tree.feed(ids[:4], 0)
    nodes = torch.stack((ids[4], ids[9], ids[5], ids[10], ids[6]))
    branched = tree.branch(nodes, (-1, -1, 0, 1, 2))
    assert torch.equal(branched[[0, 2, 4]], expected[4:7])


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_text_of_the_quantised_target(method: str) -> None:
    pair = packed_pair("llama" if len(method) % 2 else "qwen2")
    config = greedy(method, 60)
    run = speculate(pair, PROMPT, config, costs=COSTS)
    rounds = list(run)
    assert run.emitted == plain_text(pair, 60)
    assert sum(entry.num_drafted for entry in rounds) > 0


def plain_text(pair: Pair, count: int) -> tuple[int, ...]:
    """Return the likeliest tokens, one step at a time."""
    step, ids, fed = pair.target_step(256), list[int](), list(PROMPT)
    while len(ids) < count:
        ids.append(int(step.feed(torch.tensor(fed), 1).argmax()))
        fed = ids[-1:]
    return tuple(ids)


def test_sampled_text_depends_on_the_seed_alone() -> None:
    pair = packed_pair()
    config = RunConfig(gamma=3, temperature=0.8, max_new_tokens=40, ignore_eos=True, record=False)
    texts = []
    for seed in (1, 1, 2):
        run = speculate(pair, PROMPT, replace(config, seed=seed))
        list(run)
        texts.append(run.emitted)
    assert texts[0] == texts[1] != texts[2]


def test_the_library_step_multiplies_with_the_same_matrices() -> None:
    pair: Any = packed_pair(step="library")
    lean: Any = packed_pair()
    ours, theirs = (each.target_step(32).feed(IDS[0], 12) for each in (pair, lean))
    assert (ours - theirs).square().mean().sqrt() < 0.1 * theirs.std()


def test_rounds_on_the_device_are_refused() -> None:
    offered = packed_pair().target_weights.capabilities.device_rounds
    assert not offered
    assert "Quantised" in offered.reason
