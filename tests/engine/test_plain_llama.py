"""The embedded pair read without transformers, against transformers reading the same folders."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.bench.gguf_model import cannot_write, write_model
from specviz.bench.rivals import Assistance, assisted, generate
from specviz.engine import Pair, body_room, check_pair, load_pair, speculate
from specviz.engine.loading import compatibility, sources
from specviz.engine.model.pass_bytes import draft_bytes, pass_bytes
from specviz.engine.model.plain_llama import PlainLlamaForCausalLM, in_transformers
from specviz.errors import PairError
from specviz.record.pairs import PairSpec, pairs_folder
from specviz.record.prompts import read_presets
from specviz.record.trace import RunConfig
from specviz.tune.greedy import plain_text
from tests.engine.asking import edit_json

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
    ours, theirs = (replace(check_pair(each), memory_free=None) for each in (plain, LIBRARY))
    assert ours == theirs
    room, other = body_room(plain), body_room(LIBRARY)
    assert (room.target, room.draft) == (other.target, other.draft)


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


def test_a_body_can_be_simulated(plain: Pair) -> None:
    spec = PairSpec(threads=1, target_body="10M")
    pair = load_pair(spec)
    grown: Any = pair.target
    with torch.inference_mode():
        ours, small = grown(ids()).logits, plain.target(ids()).logits
        converted = in_transformers(grown)(ids()).logits
    assert torch.allclose(ours, small, atol=1e-4 * float(small.abs().max()))
    assert torch.allclose(ours, converted, atol=1e-4 * float(small.abs().max()))
    assert sum(each.numel() for each in grown.parameters()) == pair.info.target.parameters
    library = load_pair(replace(spec, step="library"))
    assert replace(library.info.target, step="lean") == pair.info.target
    assert text_of(pair) == text_of(library)


def text_of(pair: Pair, config: RunConfig | None = None) -> list[int]:
    rounds = speculate(pair, "Once upon a time", config or CONFIG)
    return [token for entry in rounds for token in entry.emitted]


@pytest.mark.parametrize(
    "changes",
    [
        {"drafter": "early-exit:1"},
        {"drafter": "prompt-lookup"},
        {"branching": (2, 2)},
        {"num_drafts": 2},
    ],
    ids=str,
)
def test_other_drafters_write_the_same_text(
    plain: Pair, library: Pair, changes: dict[str, Any]
) -> None:
    config = replace(CONFIG, **changes)
    assert draft_bytes(plain, config) == draft_bytes(library, config)
    assert text_of(plain, config) == text_of(library, config)


@pytest.mark.parametrize(
    "spec",
    [
        PairSpec(threads=1, dtype="float16"),
        PairSpec(threads=1, draft_body="10M"),
        PairSpec(threads=1, step="lean"),
        PairSpec(threads=1, step="graphed"),
    ],
    ids=str,
)
def test_other_ways_to_load_it(spec: PairSpec) -> None:
    pair = load_pair(spec)
    assert isinstance(pair.target, PlainLlamaForCausalLM)
    assert pair.info.target.step == ("graphed" if spec.step == "graphed" else "lean")
    assert len(text_of(pair)) == CONFIG.max_new_tokens


def test_transformers_generates_with_it(plain: Pair) -> None:
    prompt = plain.tokenizer("Once upon a time")["input_ids"]
    assert plain_text(plain, prompt, CONFIG.max_new_tokens) == text_of(plain)
    assert list(generate(plain, prompt, CONFIG.max_new_tokens).token_ids) == text_of(plain)
    assisting = assisted(plain, prompt, CONFIG.max_new_tokens, Assistance())
    assert list(assisting.token_ids) == text_of(plain)


def test_it_is_written_for_llamacpp(plain: Pair, library: Pair, tmp_path: Path) -> None:
    for name, pair in (("plain", plain), ("library", library)):
        assert cannot_write(pair.target) is None
        write_model(pair.target, pair.vocabulary, tmp_path / name)
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "library").read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("target/config.json", None, "config.json is missing"),
        ("target/config.json", "{", "config.json of tinystories/target cannot be read"),
        ("draft/tokenizer.json", None, "has no tokenizer files"),
        ("draft/model.safetensors", None, "has no weights in safetensors files"),
        ("target/model.safetensors", "short", "truncated or broken"),
        ("draft", None, "does not exist"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, content: str | None, words: str
) -> None:
    shutil.copytree(pairs_folder() / "tinystories", tmp_path / "tinystories")
    damaged = tmp_path / "tinystories" / name
    shutil.rmtree(damaged) if damaged.is_dir() else damaged.unlink()
    if content is not None:
        damaged.write_text(content)
    monkeypatch.setattr(sources, "pairs_folder", lambda: tmp_path)
    with pytest.raises(PairError, match=words) as refused:
        load_pair(PairSpec(threads=1))
    assert str(tmp_path) not in str(refused.value)


def test_a_model_with_extras_is_read_by_transformers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(pairs_folder() / "tinystories", tmp_path / "tinystories")
    for role in ("target", "draft"):
        edit_json(
            tmp_path / "tinystories" / role / "config.json",
            rope_parameters={"rope_theta": 10_000.0, "rope_type": "linear", "factor": 2.0},
        )
    monkeypatch.setattr(sources, "pairs_folder", lambda: tmp_path)
    assert not isinstance(load_pair(PairSpec(threads=1)).target, PlainLlamaForCausalLM)


CONFIG = RunConfig(temperature=0.0, max_new_tokens=32, ignore_eos=True)
RUN = """
import sys
from specviz.engine import check_pair, load_pair, speculate
from specviz.errors import PairError
from specviz.record.pairs import PairSpec, pairs_folder
from specviz.record.trace import RunConfig
from specviz.tune.greedy import plain_text
from tests.engine.asking import edit_json

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
