"""Checks before loading: exact sizes, the same errors as loading, no weights read."""

from __future__ import annotations

import json
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from huggingface_hub import constants

from specviz.engine import check_pair
from specviz.engine.loading import hardware
from specviz.errors import ConfigError, PairError, SpecvizError
from specviz.record.pairs import PairCheck, PairSpec, Progress
from tests.engine.asking import edit_json, load
from tests.engine.fake_hub import FakeHub
from tests.engine.models import (
    FAMILIES,
    VOCABULARY,
    small_tokenizer,
    tiny_config,
    tiny_model,
    write_model,
    write_pair,
)

Edit = Callable[[Path], object]
HUB_PAIR: dict[str, Any] = {"target": "us/target", "draft": "us/draft"}


def check(folder: Path, **settings: Any) -> PairCheck:
    given: dict[str, Any] = {"target": str(folder / "target"), "draft": str(folder / "draft")}
    return check_pair(PairSpec(**(given | settings)))


def refused(call: Callable[[], object]) -> SpecvizError:
    with pytest.raises(SpecvizError) as caught:
        call()
    return caught.value


def same_refusal(folder: Path, **settings: Any) -> str:
    """The error message of the check, which must be that of the load."""
    by_check = refused(lambda: check(folder, **settings))
    by_load = refused(lambda: load(folder, **settings))
    assert type(by_check) is type(by_load)
    assert str(by_check) == str(by_load)
    return str(by_check)


def weights_size(folder: Path) -> int:
    return (folder / "model.safetensors").stat().st_size


@pytest.fixture
def served(llama: Path, hub: FakeHub) -> Path:
    hub.repositories = {"us/target": llama / "target", "us/draft": llama / "draft"}
    return llama


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2), ("auto", 4)])
def test_a_pair_of_folders(tmp_path: Path, dtype: str, size: int) -> None:
    target, draft = tiny_model(), tiny_model(num_hidden_layers=1)
    write_model(tmp_path / "target", target, small_tokenizer())
    write_model(tmp_path / "draft", draft, small_tokenizer())
    large, small = (sum(p.numel() for p in model.parameters()) for model in (target, draft))
    found = check(tmp_path, dtype=dtype, device="cpu")
    assert found.draft is not None
    assert (found.target.parameters, found.draft.parameters) == (large, small)
    assert found.size_ratio == large / small > 1
    copies = 2 if dtype != "bfloat16" else 1  # the kernels read copies of small float32 models
    assert found.memory_needed == copies * size * (large + small)
    assert found.vocabulary == VOCABULARY
    assert found.target.name == str(tmp_path / "target")
    assert found.target.family == found.draft.family == "llama"
    assert found.target.bytes_to_fetch == found.draft.bytes_to_fetch == 0
    assert found.notices == ()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_check_matches_the_loaded_pair(family: str, tmp_path: Path) -> None:
    tied = family in ("gemma2", "gemma3_text", "gpt2")
    write_pair(tmp_path, family, tie_word_embeddings=tied)
    found, pair = check(tmp_path), load(tmp_path)
    assert found.target.parameters == pair.info.target.parameters
    assert found.target.family == pair.info.target.family
    assert found.vocabulary == pair.vocabulary
    assert found.notices == pair.notices


def test_the_check_has_the_notices_of_the_load(tmp_path: Path) -> None:
    larger = small_tokenizer()
    larger.add_tokens(["<think>"])
    write_model(tmp_path / "target", tiny_model(vocabulary=VOCABULARY + 1), larger)
    write_model(tmp_path / "draft", tiny_model(), small_tokenizer())
    edit_json(tmp_path / "draft" / "config.json", max_position_embeddings=128)
    found = check(tmp_path)
    assert found.vocabulary == VOCABULARY
    assert found.notices == load(tmp_path).notices
    assert len(found.notices) == 2


def test_a_target_alone(llama: Path) -> None:
    found = check(llama, draft=None, device="cpu")
    assert found.draft is None
    assert found.size_ratio is None
    assert found.memory_needed == 2 * 4 * found.target.parameters  # with copies for the kernels


def test_reports_whether_the_pair_fits(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = check(llama).memory_needed
    for free, fits in ((needed, True), (needed - 1, False), (None, None)):
        monkeypatch.setattr(hardware, "free_memory", lambda _, free=free: free)
        found = check(llama)
        assert (found.memory_free, found.fits) == (free, fits)


def _other_tokenizer(folder: Path) -> None:
    odd = small_tokenizer(300)
    odd.add_tokens([f"<{i}>" for i in range(20)])
    odd.save_pretrained(folder / "draft")


def _truncate(folder: Path) -> None:
    file = folder / "draft" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def _pickle_only(folder: Path) -> None:
    file = folder / "target" / "model.safetensors"
    file.rename(file.with_name("pytorch_model.bin"))


def _target_config(**changes: object) -> Edit:
    return lambda folder: edit_json(folder / "target" / "config.json", **changes)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (_other_tokenizer, "different tokenizers"),
        (_truncate, "truncated or broken"),
        (_pickle_only, "pickle checkpoint"),
        (lambda folder: (folder / "draft" / "model.safetensors").unlink(), "no weights"),
        (lambda folder: (folder / "draft" / "config.json").write_text("{"), "cannot be read"),
        (lambda folder: shutil.rmtree(folder / "draft"), "does not exist"),
        (_target_config(model_type="t5"), "not a causal language model"),
        (_target_config(hidden_size="wide"), "cannot be loaded"),
    ],
)
def test_the_check_raises_the_errors_of_the_load(llama_copy: Path, edit: Edit, words: str) -> None:
    edit(llama_copy)
    assert words in same_refusal(llama_copy)


def test_a_family_that_cannot_roll_back(tmp_path: Path) -> None:
    write_pair(tmp_path, "mamba")
    assert "family mamba: such models read one token at a time" in same_refusal(tmp_path)


def test_settings_outside_their_range(llama: Path) -> None:
    for wrong in ({"dtype": "int8"}, {"device": "gpu"}, {"step": "fast"}, {"threads": 0}):
        same_refusal(llama, **wrong)
        assert isinstance(refused(lambda wrong=wrong: check(llama, **wrong)), ConfigError)


def _large_model(folder: Path, layers: int) -> int:
    """Write a model of some GB as a sparse file; return its number of parameters."""
    config = tiny_config(
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=32,
        head_dim=128,
    )
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(folder)
    small_tokenizer().save_pretrained(folder)
    numbers = 2 * VOCABULARY * 4096 + 4096 + layers * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096)
    entry = {"dtype": "F32", "shape": [numbers], "data_offsets": [0, 4 * numbers]}
    header = json.dumps({"all": entry}).encode()
    header += b" " * (-len(header) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 4 * numbers)
    return numbers


def test_large_weights_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = _large_model(tmp_path / "target", 32), _large_model(tmp_path / "draft", 4)
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    found = check(tmp_path, device="cpu")
    assert time.perf_counter() - begin < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB
    assert found.draft is not None
    assert (found.target.parameters, found.draft.parameters) == sizes
    assert found.memory_needed == 4 * sum(sizes) > 25e9
    monkeypatch.setattr(hardware, "free_memory", lambda _: 10**9)
    assert "does not fit" in str(refused(lambda: load(tmp_path, device="cpu")))


def test_the_check_does_not_read_nan_weights(tmp_path: Path) -> None:
    model = tiny_model()
    with torch.no_grad():
        model.get_parameter("lm_head.weight").fill_(float("nan"))
    for role in ("target", "draft"):
        write_model(tmp_path / role, model, small_tokenizer())
    assert check(tmp_path).vocabulary == VOCABULARY
    assert "NaN" in str(refused(lambda: load(tmp_path)))


def test_bytes_to_fetch_before_and_after_loading(served: Path, hub: FakeHub) -> None:
    reports: list[Progress] = []
    found = check_pair(PairSpec(**HUB_PAIR), reports.append)
    assert found.draft is not None
    assert found.target.bytes_to_fetch == weights_size(served / "target")
    assert found.draft.bytes_to_fetch == weights_size(served / "draft")
    assert found.target.parameters == check(served).target.parameters
    assert "tokenizer.json" in hub.sent
    assert "model.safetensors" not in hub.sent
    assert {each.activity for each in reports} == {"looking"}
    load(served, **HUB_PAIR)
    hub.sent.clear()
    after = check(served, **HUB_PAIR)
    assert after.draft is not None
    assert after.target.bytes_to_fetch == after.draft.bytes_to_fetch == 0
    assert hub.sent == []


def test_bytes_to_fetch_of_missing_shards(llama_copy: Path, hub: FakeHub, tmp_path) -> None:
    target = llama_copy / "target"
    model = hf.AutoModelForCausalLM.from_pretrained(target)
    (target / "model.safetensors").unlink()
    model.save_pretrained(target, max_shard_size="100KB")
    hub.repositories = {"us/target": target, "us/draft": llama_copy / "draft"}
    load(llama_copy, **HUB_PAIR)
    first, *_ = sorted(tmp_path.glob("cache/models--us--target/snapshots/*/*.safetensors"))
    size = first.stat().st_size
    first.resolve().unlink()
    assert check(llama_copy, **HUB_PAIR).target.bytes_to_fetch == size
    assert size < sum(file.stat().st_size for file in target.glob("*.safetensors"))


def test_the_hub_refuses_a_check(served: Path, hub: FakeHub) -> None:
    hub.repositories["us/gated"] = served / "target"
    hub.gated = {"us/gated"}
    gated = same_refusal(served, target="us/gated")
    assert "us/gated is gated" in gated
    assert "hf auth login" in gated
    missing = same_refusal(served, target="us/nothing")
    assert "no model us/nothing" in missing
    assert "spelling" in missing


def test_a_pickle_on_the_hub(llama_copy: Path, hub: FakeHub) -> None:
    _pickle_only(llama_copy)
    hub.repositories = {"us/target": llama_copy / "target"}
    assert "no weights in safetensors" in same_refusal(llama_copy, target="us/target")
    assert "pytorch_model.bin" not in hub.sent


@pytest.mark.parametrize("small_files_here", [False, True])
def test_offline(served: Path, hub: FakeHub, monkeypatch, small_files_here: bool) -> None:
    if small_files_here:
        check(served, **HUB_PAIR)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    words = same_refusal(served, **HUB_PAIR)
    assert "not in the local cache and the Hub cannot be reached" in words
    assert "Connect to the network" in words


def test_offline_with_all_files_here(served: Path, hub: FakeHub, monkeypatch) -> None:
    load(served, **HUB_PAIR)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert check(served, **HUB_PAIR).target.bytes_to_fetch == 0


def test_an_exception_of_the_callback_stops_a_check(served: Path, hub: FakeHub) -> None:
    error = PairError("Enough.", remedy="Ask again.")

    def stop(_: Progress) -> None:
        raise error

    with pytest.raises(PairError) as caught:
        check_pair(PairSpec(**HUB_PAIR), stop)
    assert caught.value is error
