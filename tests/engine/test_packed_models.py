"""Models whose weights stay quantised: their steps, their logits, and lossless speculation."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specviz.engine import Pair, body_room, load_pair, speculate
from specviz.engine.loading import compatibility, loading
from specviz.engine.loading.compatibility import same_layers
from specviz.engine.model.lean_weights import LeanWeights, Norm
from specviz.engine.model.packed_weights import PackedLinear, is_packed, quantise
from specviz.engine.model.plain_llama import in_transformers
from specviz.errors import PairError
from specviz.formats.gguf_header import read_header
from specviz.record.bodies import NO_BODY
from specviz.record.body_costs import body_cost
from specviz.record.pairs import CHAT_PAIR, QUANTISED, PairSpec, chat_file, spec_of
from specviz.record.trace import RunConfig
from tests.engine.models import (
    VOCABULARY,
    noisy_copy,
    pair_of,
    small_tokenizer,
    tiny_model,
    write_model,
)
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


def test_threads_change_no_bit() -> None:
    pair, threads = packed_pair("qwen2"), torch.get_num_threads()
    ids = torch.tensor(PROMPT * 4)[:30]
    try:
        fed = []
        for count in (1, 3):
            torch.set_num_threads(count)
            step = pair.target_step(64)
            fed.append(torch.cat((step.feed(ids, 2), step.feed(ids[:5], 5))))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*fed)


def test_an_early_exit_of_the_library_step_works() -> None:
    pair = packed_pair(step="library")
    run = speculate(pair, PROMPT, replace(greedy("suffix", 30), drafter="early-exit:1"))
    assert sum(entry.num_drafted for entry in run) > 0


def test_the_embedded_pair_can_be_quantised() -> None:
    pair = load_pair(PairSpec(target_weights="q8_0", draft_weights="q4_0", threads=1))
    assert pair.info.chosen_weights == "target in Q8_0, draft in Q4_0"
    target, draft, acceptance = pair.notices
    assert pair.info.target.weights == "Q8_0"
    assert pair.info.draft is not None
    assert pair.info.draft.weights == "Q4_0"
    assert spec_of(pair.info) == PairSpec(
        name="tinystories", target_weights="q8_0", draft_weights="q4_0"
    )
    assert "Q8_0" in target
    assert "Q4_0" in draft
    before, after = (float(each) for each in re.findall(r"0\.\d+", acceptance))
    assert 0.5 < after < before < 1.0
    ids = torch.tensor([[5, 9, 300, 41]])
    plain, converted = pair.target(ids).logits, in_transformers(pair.target)(ids).logits
    assert (plain - converted).square().mean().sqrt() < 0.1 * plain.std()


def test_a_quantised_body_has_the_logits_of_the_model() -> None:
    specs = (
        PairSpec(target_weights="q8_0", target_body=body, threads=1) for body in ("none", "20M")
    )
    small, large = (load_pair(spec).target_step(32).feed(IDS[0], 12) for spec in specs)
    assert (small - large).square().mean().sqrt() < 0.1 * small.std()


def test_weights_that_cannot_be_quantised_are_refused(tmp_path: Path) -> None:
    for spec, words in (
        (PairSpec(target_weights="q8_0", dtype="bfloat16"), "needs a CPU and the dtype float32"),
        (PairSpec(target=str(write_model(tmp_path, tiny_model("gpt2"), small_tokenizer())),
                  target_weights="q8_0"), "cannot be quantised here"),
    ):  # fmt: skip
        with pytest.raises(PairError, match=words):
            load_pair(spec)


@pytest.mark.parametrize("place", ["blk.0.ffn_down.weight", "token_embd.weight"])
@pytest.mark.parametrize("scale", [float("nan"), float("inf")])
def test_a_scale_that_is_not_finite_is_refused(tmp_path: Path, place: str, scale: float) -> None:
    path = write_file(tmp_path, tiny_model().requires_grad_(False), "Q8_0")
    tensor = next(each for each in read_header(path).tensors if each.name == place)
    with path.open("r+b") as file:
        file.seek(tensor.start + 34)
        file.write(np.float16(scale).tobytes())
    with pytest.raises(PairError, match=f"weights of .* are broken: {place}"):
        loaded(path)


def test_the_room_for_bodies_knows_the_bytes_of_quantised_weights(tmp_path: Path) -> None:
    path = write_file(tmp_path, tiny_model().requires_grad_(False), "Q4_0")
    room = body_room(PairSpec(target=str(path)))
    pair = loaded(path)
    assert room.target is not None
    cost = body_cost(NO_BODY, room.target, room)
    assert cost.memory_bytes == sum(each.nbytes for each in pair.target.parameters())
    quantised = body_room(PairSpec(target_weights="q8_0")).target
    assert quantised is not None
    assert quantised.quantised == (34 / 32, 34 / 32)


def test_a_quantised_body_has_no_useful_exits() -> None:
    pair = load_pair(PairSpec(target_weights="q8_0", target_body="20M", threads=1))
    assert not pair.target_weights.capabilities.exits


@pytest.mark.parametrize("change", ["positions", "scale", "norm"])
def test_a_wrong_lean_step_is_detected(change: str) -> None:
    model: Any = tiny_model("qwen2")
    quantise(model, "Q8_0", lambda *_: None)
    right = LeanWeights.take(model)
    assert right is not None
    wrong = {
        "positions": replace(right, inverse_frequencies=right.inverse_frequencies * 0.9),
        "scale": replace(right, rope_scale=1.05),
        "norm": replace(right, norm=Norm(right.norm.weight * 1.05, right.norm.eps)),
    }
    assert same_layers(right, model, VOCABULARY)
    assert not same_layers(wrong[change], model, VOCABULARY)


def test_loading_checks_the_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "same_layers", lambda *_: False)
    pair = loaded(write_file(tmp_path, tiny_model().requires_grad_(False), "Q8_0"))
    assert pair.info.target.step == "library"
    assert "gives different logits" in " ".join(pair.notices)


def test_the_library_step_supports_trees_of_a_real_model() -> None:
    if chat_file() is None:
        pytest.skip("the chat model is not installed")
    pair = load_pair(PairSpec(name=CHAT_PAIR, step="library", threads=1))
    assert pair.target_weights.capabilities.trees


def test_a_machine_without_the_kernels_dequantises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "packed_ready", lambda: False)
    pair = loaded(write_file(tmp_path, tiny_model().requires_grad_(False), "Q8_0"))
    assert not is_packed(pair.target)
    with pytest.raises(PairError, match="do not work on this machine"):
        load_pair(PairSpec(target_weights="q8_0", threads=1))


def test_the_library_step_multiplies_with_the_same_matrices() -> None:
    pair: Any = packed_pair(step="library")
    lean: Any = packed_pair()
    ours, theirs = (each.target_step(32).feed(IDS[0], 12) for each in (pair, lean))
    assert (ours - theirs).square().mean().sqrt() < 0.1 * theirs.std()


def test_rounds_on_the_device_are_refused() -> None:
    offered = packed_pair().target_weights.capabilities.device_rounds
    assert not offered
    assert "quantised weights" in offered.reason
