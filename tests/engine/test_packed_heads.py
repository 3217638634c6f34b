"""An EAGLE head with quantised weights, beside a quantised target and on request."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import torch

from specviz.engine import Pair, decode_plainly, load_pair
from specviz.engine.heads.eagle import EagleHead
from specviz.engine.loading import head_loading
from specviz.engine.model.packed_weights import PackedProduct, quantised_product
from specviz.engine.model.pass_bytes import draft_bytes
from specviz.errors import PairError
from specviz.record.pairs import PairSpec, spec_of
from specviz.record.run_config import RunConfig
from tests.engine.playing import PROMPT, play, tokens

EAGLE3 = "tinystories-eagle3"
BLOCK_BYTES = {"q8_0": 34, "q4_0": 18}  # of 32 weights


@cache
def loaded(target: str, draft: str = "auto", name: str = EAGLE3) -> Pair:
    spec = PairSpec(name=name, target_weights=target, draft_weights=draft, threads=1, device="cpu")
    return load_pair(spec)


def head_of(pair: Pair) -> EagleHead:
    assert isinstance(pair.head, EagleHead)
    return pair.head


def logits_of(pair: Pair) -> torch.Tensor:
    """Return the head's logits for the same states, whatever the weights of the pair."""
    head = head_of(pair)
    generator = torch.Generator().manual_seed(5)
    states = torch.randn(9, head.target.width * len(head.states.places), generator=generator)
    run = head.start(16)
    ids = torch.arange(40, 49)
    first = run.begin(ids, states)
    known = head.proposable
    assert known is not None
    return torch.cat([first, run.go_on(torch.tensor([55]))])[:, known]


@pytest.mark.parametrize(
    ("target", "draft", "kind"),
    [
        ("q8_0", "auto", "Q8_0"), ("q8_0", "float", ""), ("q8_0", "q4_0", "Q4_0"),
        ("auto", "auto", ""), ("auto", "q8_0", "Q8_0"),
    ],
)  # fmt: skip
def test_the_heads_weights_have_the_chosen_type(target: str, draft: str, kind: str) -> None:
    pair, plain = loaded(target, draft), loaded("auto")
    info, reference = pair.info.draft, plain.info.draft
    assert info is not None
    assert reference is not None
    assert (info.weights, info.weights_option) == (kind, draft)
    assert info.parameters == reference.parameters
    assert (info.weights_sha256 == reference.weights_sha256) == (kind == "")
    packed = {type(each) is PackedProduct for each in head_of(pair).products}
    assert packed == {bool(kind)}
    assert spec_of(pair.info).draft_weights == draft
    by_default = kind and draft == "auto"
    assert any("(--draft-weights float)" in each for each in pair.notices) == bool(by_default)


@pytest.mark.parametrize("kind", BLOCK_BYTES)
def test_a_step_reads_the_bytes_of_the_blocks(kind: str) -> None:
    quantised, plain = (
        draft_bytes(loaded("auto", each), RunConfig(drafter="eagle", gamma=3))
        for each in (kind, "auto")
    )
    assert quantised is not None
    assert plain is not None
    matrices = sum(each.weight.nbytes for each in head_of(loaded("auto")).products)
    expected = plain.weights - matrices + matrices // 4 * BLOCK_BYTES[kind] // 32
    assert quantised.weights == expected


@pytest.mark.parametrize(("kind", "share"), [("q8_0", 0.05), ("q4_0", 0.3)])
def test_logits_are_those_of_the_original_up_to_rounding(kind: str, share: float) -> None:
    plain, quantised = logits_of(loaded("auto")), logits_of(loaded("auto", kind))
    error = (plain - quantised).square().mean().sqrt() / plain.std()
    assert 0.0 < float(error) < share


@pytest.mark.parametrize(("kind", "most"), [("q8_0", 0.002), ("q4_0", 0.2)])
def test_a_note_states_what_the_option_changes(kind: str, most: float) -> None:
    (note,) = [each for each in loaded("auto", kind).notices if "quantised to" in each]
    numbers = [float(each) for each in re.findall(r"\d\.\d+", note)]
    kl, distance, before, after = numbers
    assert 0 < kl < most
    assert kl < distance < 0.3
    assert 0.3 < before < 0.9
    assert after == pytest.approx(before, abs=distance)
    assert not any("KL" in each for each in loaded("q8_0").notices if "head" in each)


def test_greedy_text_is_the_targets() -> None:
    pair = loaded("q8_0")
    config = RunConfig(drafter="eagle", gamma=3, temperature=0.0, max_new_tokens=40)
    rounds = play(pair, config)
    assert tokens(rounds)[:40] == tuple(decode_plainly(pair, PROMPT, config))
    assert sum(len(each.emitted) - 1 for each in rounds) > 5  # the head is of use


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (PairSpec(name="tinystories-medusa", draft_weights="q8_0", threads=1), "be quantised here"),
        (PairSpec(name=EAGLE3, draft_weights="q8_0", dtype="bfloat16", device="cpu"), "float32"),
    ],
)
def test_other_heads_and_dtypes_are_refused(spec: PairSpec, words: str) -> None:
    with pytest.raises(PairError, match=words):
        load_pair(spec)


def test_a_machine_without_the_kernels_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_loading, "packed_ready", lambda: False)
    with pytest.raises(PairError, match="do not work on this machine"):
        load_pair(PairSpec(name=EAGLE3, draft_weights="q8_0", threads=1, device="cpu"))


def test_a_matrix_that_no_kernel_reads_stays_in_floating_point() -> None:
    huge: Any = torch.full((4, 64), 1e38)
    assert quantised_product(huge, None, "Q8_0") is None
    assert quantised_product(torch.ones(4, 33), None, "Q8_0") is None
    product = quantised_product(torch.ones(4, 64), torch.ones(4), "Q8_0")
    assert product is not None
    assert torch.allclose(product(torch.ones(1, 64)), torch.full((1, 4), 65.0), rtol=0.01)
