"""The embedded pair read without transformers, against transformers reading the same folders."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from specviz.engine import Pair, body_room, check_pair, load_pair, speculate
from specviz.engine.loading import compatibility
from specviz.engine.model.pass_bytes import pass_bytes
from specviz.engine.model.plain_llama import PlainLlamaForCausalLM, in_transformers
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.trace import RunConfig

LIBRARY = PairSpec(threads=1, step="library")
HARD = (
    "",
    " ",
    "\n\n  a",
    "3.14159 1,000",
    "naïve café",
    "日本語",
    "🙂🙃",
    "<|endoftext|>",
    "a\0b",
)


@pytest.fixture(scope="module")
def plain() -> Pair:
    return load_pair(PairSpec(threads=1))


@pytest.fixture(scope="module")
def library() -> Pair:
    return load_pair(LIBRARY)


def ids() -> torch.Tensor:
    return torch.randint(4096, (2, 40), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("role", ["target", "draft"])
def test_weights_and_logits_are_equal(plain: Pair, library: Pair, role: str) -> None:
    own, other = getattr(plain, role), getattr(library, role)
    assert isinstance(own, PlainLlamaForCausalLM)
    theirs = dict(other.named_parameters())
    assert {name: tuple(each.shape) for name, each in own.named_parameters()} == {
        name: tuple(each.shape) for name, each in theirs.items()
    }
    for name, weight in own.named_parameters():
        assert torch.equal(weight, theirs[name]), name
    with torch.inference_mode():
        ours, reference = own(ids()).logits, other(ids()).logits
        converted = in_transformers(own)(ids()).logits
    assert torch.allclose(ours, reference, atol=1e-4 * float(reference.abs().max()))
    assert torch.equal(converted, reference)


def test_the_pairs_are_described_alike(plain: Pair, library: Pair) -> None:
    for name in ("name", "vocabulary", "eos_ids", "max_context", "notices", "token_table"):
        ours, theirs = getattr(plain, name), getattr(library, name)
        if name == "token_table":
            ours, theirs = (ours.pieces, ours.texts), (theirs.pieces, theirs.texts)
        assert ours == theirs, name
    assert plain.info.target.parameters == library.info.target.parameters
    assert plain.info.target.weights_sha256 == library.info.target.weights_sha256
    assert plain.stamps == library.stamps
    assert pass_bytes(plain.target) == pass_bytes(library.target)


def test_the_tokenizers_are_equal(plain: Pair, library: Pair) -> None:
    ours, theirs = plain.tokenizer, library.tokenizer
    for text in (*HARD, *(each.text for each in read_presets())):
        assert ours(text) == {"input_ids": theirs(text)["input_ids"]}
        assert ours.encode(text, add_special_tokens=False) == theirs.encode(
            text, add_special_tokens=False
        )
    assert ours.convert_ids_to_tokens(range(4096)) == theirs.convert_ids_to_tokens(range(4096))
    assert ours.convert_ids_to_tokens(7) == theirs.convert_ids_to_tokens(7)
    assert ours.get_vocab() == theirs.get_vocab()
    for name in ("eos_token", "eos_token_id", "bos_token_id", "all_special_ids", "chat_template"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert str(ours.added_tokens_decoder) == str(theirs.added_tokens_decoder)


def test_checks_and_rooms_are_equal() -> None:
    plain = PairSpec(threads=1)
    assert check_pair(plain) == check_pair(LIBRARY)
    ours, theirs = body_room(plain), body_room(LIBRARY)
    assert (ours.target, ours.draft) == (theirs.target, theirs.draft)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_check_at_load_detects_other_logits(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shifted(self: PlainLlamaForCausalLM, ids: torch.Tensor, **_: Any) -> Any:
        output = forward(self, ids)
        output.logits[..., ::3] += 0.2 * output.logits.abs().max()
        return output

    spec = PairSpec(threads=1, dtype=dtype)
    assert load_pair(spec).info.target.step == "lean"
    forward = PlainLlamaForCausalLM.forward
    monkeypatch.setattr(PlainLlamaForCausalLM, "forward", shifted)
    pair = load_pair(spec)
    assert pair.info.target.step == "library"
    assert "different logits" in pair.notices[0]


def test_a_rollback_is_part_of_the_check(plain: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    step = type(plain.target_step(12))
    assert compatibility._agrees(plain.target_step(12), plain.target, plain.vocabulary)
    monkeypatch.setattr(step, "forget", lambda *_: None)
    assert not compatibility._agrees(plain.target_step(14), plain.target, plain.vocabulary)


def test_a_body_can_be_simulated() -> None:
    spec = PairSpec(threads=1, target_body="10M")
    texts = [
        [token for entry in speculate(load_pair(each), "Once upon a time", CONFIG)
         for token in entry.emitted]
        for each in (spec, PairSpec(threads=1, target_body="10M", step="library"))
    ]  # fmt: skip
    assert texts[0] == texts[1]


CONFIG = RunConfig(temperature=0.0, max_new_tokens=32, ignore_eos=True)
RUN = """
import sys
from specviz.engine import check_pair, load_pair, speculate
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig

check_pair(PairSpec())
pair = load_pair(PairSpec(threads=1, target_body="10M"))
list(speculate(pair, "Once", RunConfig(max_new_tokens=8)))
print(*{name for name in sys.modules if name.count(".") < 2})
"""


def test_a_run_imports_neither_transformers_nor_torchs_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "torch" in loaded
    assert not loaded & {"transformers", "torch._dynamo", "torch._inductor", "sympy"}
