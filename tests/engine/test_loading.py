"""Loaded pairs: their contents, their step implementation and their threads."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
import transformers as hf
from transformers.utils import logging as hf_logging

from specviz.engine.loading import hardware, sources
from specviz.engine.loading.loading import load_pair
from specviz.engine.model.lean import LeanStep
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.library_step import LibraryStep
from specviz.engine.model.pair import Pair
from specviz.engine.model.wrapped_step import WrappedStep
from specviz.errors import PairError
from specviz.record.pairs import PairSpec, Progress
from tests.engine.asking import edit_json, load, refusal
from tests.engine.models import (
    FAMILIES,
    VOCABULARY,
    build,
    noisy_copy,
    small_tokenizer,
    tiny_config,
    tiny_model,
    write_model,
    write_pair,
)


def test_a_pair_of_folders(llama_pair: Pair, llama: Path) -> None:
    assert llama_pair.vocabulary == VOCABULARY
    assert llama_pair.max_context == 512
    assert llama_pair.eos_ids == {0}
    assert llama_pair.notices == ()
    assert llama_pair.info.draft is not None
    assert llama_pair.info.target.name == str(llama / "target")
    assert llama_pair.info.target.family == "llama"
    assert llama_pair.info.target.step == llama_pair.info.draft.step == "lean"
    assert llama_pair.info.target.weights_sha256 != llama_pair.info.draft.weights_sha256
    assert llama_pair.info.target.parameters == sum(p.numel() for p in tiny_model().parameters())
    assert (
        llama_pair.token_table.join(llama_pair.tokenizer("a small dog")["input_ids"])
        == "a small dog"
    )


def test_models_are_ready_to_step(llama_pair: Pair) -> None:
    assert llama_pair.draft is not None
    for model in (llama_pair.target, llama_pair.draft):
        assert not model.training
        assert not any(parameter.requires_grad for parameter in model.parameters())
        assert model.dtype == torch.float32
    ids = torch.tensor([5, 6, 7])
    assert isinstance(llama_pair.target_step(8), LeanStep)
    assert llama_pair.target_step(8).feed(ids, 2).shape == (2, VOCABULARY)
    assert llama_pair.draft_step(8).feed(ids, 1).shape == (1, VOCABULARY)


def test_the_environment_is_recorded(llama_pair: Pair) -> None:
    place = llama_pair.environment
    assert (place.device, place.dtype, place.threads) == ("cpu", "float32", 1)
    assert place.cpu
    libraries = {"torch", "transformers", "tokenizers", "numba"}
    assert set(place.versions) == {"python", "specviz"} | libraries


@pytest.mark.parametrize("family", FAMILIES)
def test_families_that_roll_back(family: str, tmp_path: Path) -> None:
    pair = load(write_pair(tmp_path, family))
    assert pair.info.target.family == family
    lean = family in ("llama", "mistral", "qwen2", "qwen3")
    assert pair.info.target.step == ("lean" if lean else "library")
    assert pair.max_context == 512
    assert pair.notices == ()


def test_the_target_alone(llama: Path) -> None:
    pair = load(llama, draft=None)
    assert pair.draft is None
    assert pair.info.draft is None
    assert pair.target_step(4).feed(torch.tensor([1]), 1).shape == (1, VOCABULARY)


def test_an_embedded_pair_by_name(llama: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sources, "pairs_folder", lambda: tmp_path)
    shutil.copytree(llama, tmp_path / "tinystories")
    shutil.copytree(llama, tmp_path / "other")
    pair = load_pair(PairSpec(threads=1))
    assert pair.name == pair.info.name == "tinystories"
    assert pair.info.target.name == "tinystories/target"
    assert load_pair(PairSpec(name="other", threads=1)).name == "other"
    with pytest.raises(PairError, match=r"no embedded pair 'nope'.*other, tinystories"):
        load_pair(PairSpec(name="nope"))


def test_shards_are_read_whole(llama_copy: Path) -> None:
    model = hf.AutoModelForCausalLM.from_pretrained(llama_copy / "target")
    (llama_copy / "target" / "model.safetensors").unlink()
    model.save_pretrained(llama_copy / "target", max_shard_size="100KB")
    assert len(list((llama_copy / "target").glob("*.safetensors"))) > 1
    pair = load(llama_copy)
    assert torch.equal(pair.target.lm_head.weight, model.lm_head.weight)


def test_padded_vocabularies_are_cut_on_both_sides(tmp_path: Path) -> None:
    tokenizer = small_tokenizer()
    for role, rows in (("target", VOCABULARY + 64), ("draft", VOCABULARY + 16)):
        write_model(tmp_path / role, tiny_model(vocabulary=rows), tokenizer)
    pair = load(tmp_path)
    assert pair.vocabulary == pair.info.vocabulary == VOCABULARY
    assert pair.notices == ()
    for step in (pair.target_step(4), pair.draft_step(4)):
        assert step.feed(torch.tensor([1, 2]), 1).shape == (1, VOCABULARY)


def test_notes_tokens_unknown_to_the_draft(tmp_path: Path) -> None:
    larger = small_tokenizer()
    larger.add_tokens(["<think>", "</think>"])
    write_model(tmp_path / "target", tiny_model(vocabulary=VOCABULARY + 2), larger)
    write_model(tmp_path / "draft", tiny_model(), small_tokenizer())
    pair = load(tmp_path)
    assert pair.vocabulary == VOCABULARY
    assert any("2 tokens" in notice and "'<think>'" in notice for notice in pair.notices)
    for end in ("<think>", "</think>"):  # the first id beyond the shared vocabulary, and the next
        larger.eos_token = end
        larger.save_pretrained(tmp_path / "target")
        assert f"end token '{end}'" in refusal(PairError, tmp_path)


def test_ends_of_text(llama_copy: Path) -> None:
    last = VOCABULARY - 1
    ends = [7, last, VOCABULARY, 9999, -1]
    edit_json(llama_copy / "target" / "generation_config.json", eos_token_id=ends)
    pair = load(llama_copy)
    assert (pair.vocabulary, pair.eos_ids) == (VOCABULARY, {0, 7, last})
    edit_json(llama_copy / "draft" / "tokenizer_config.json", eos_token="!")
    notices = load(llama_copy).notices
    assert any("The draft ends a text with '!'" in notice for notice in notices)


def test_the_shorter_context_is_used(llama_copy: Path) -> None:
    edit_json(llama_copy / "draft" / "config.json", max_position_embeddings=128)
    pair = load(llama_copy)
    assert pair.max_context == 128
    assert any("128 tokens" in notice and "512" in notice for notice in pair.notices)


def test_the_library_step_can_be_forced(llama: Path) -> None:
    pair = load(llama, step="library")
    assert pair.info.target.step == "library"
    assert isinstance(pair.target_step(4), LibraryStep)


def test_both_models_or_neither_use_the_lean_step(llama: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "draft", tiny_model("gpt2"), small_tokenizer())
    shutil.copytree(llama / "target", tmp_path / "target")
    pair = load(tmp_path)
    assert isinstance(pair.target_step(4), LibraryStep)
    assert pair.notices == ()
    message = refusal(PairError, tmp_path, step="lean")
    assert "gpt2" in message
    assert "--step library" in message


@pytest.mark.parametrize("fault", ["scale", "crash"])
def test_a_differing_lean_step_is_not_used(llama: Path, monkeypatch, fault: str) -> None:
    feed = LeanStep.feed

    def wrong(self: LeanStep, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        if fault == "crash":
            raise RuntimeError("shapes")
        logits = feed(self, token_ids, num_logits)
        return logits * 1.02 if self.length > 6 else logits  # wrong only after the first steps

    monkeypatch.setattr(LeanStep, "feed", wrong)
    pair = load(llama)
    assert isinstance(pair.target_step(4), LibraryStep)
    assert any("lean step gives different logits" in notice for notice in pair.notices)
    assert "--step library" in refusal(PairError, llama, step="lean")


def test_a_lean_step_with_wrong_rollback_is_not_used(llama: Path, monkeypatch) -> None:
    monkeypatch.setattr(LeanStep, "forget", lambda *_: None)
    monkeypatch.setattr(LeanStep, "__init__", _with_room(LeanStep.__init__))
    assert load(llama).info.target.step == "library"


def _with_room(make: Callable[..., None]) -> Callable[..., None]:
    def roomy(self: LeanStep, weights: LeanWeights, vocabulary: int, capacity: int) -> None:
        make(self, weights, vocabulary, capacity + 8)

    return roomy


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(llama: Path, dtype: str) -> None:
    pair = load(llama, dtype=dtype)
    assert pair.target.dtype == getattr(torch, dtype)
    assert pair.environment.dtype == dtype
    assert pair.notices == ()


def test_threads_are_set_or_chosen(llama: Path) -> None:
    assert load(llama, threads=2).environment.threads == torch.get_num_threads() == 2
    chosen = load(llama, threads=None).environment.threads
    assert chosen == torch.get_num_threads()
    assert chosen in hardware.thread_candidates(10_000)
    load(llama, threads=1)


class _Timed(WrappedStep):
    """A step whose time depends on the number of threads."""

    def __init__(self, milliseconds: dict[int, float]) -> None:
        super().__init__(LibraryStep(tiny_model("llama"), VOCABULARY))
        self._milliseconds = milliseconds

    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        del num_logits
        time.sleep(self._milliseconds[torch.get_num_threads()] / 1000)
        return token_ids

    def forget(self, count: int) -> None:
        pass


@pytest.mark.parametrize(
    ("milliseconds", "chosen"),
    [({1: 2.0, 2: 6.0}, 1), ({1: 6.0, 2: 2.0}, 2), ({1: 2.0, 2: 300.0}, 1)],
)
def test_calibration_chooses_the_faster_count(monkeypatch, milliseconds, chosen: int) -> None:
    monkeypatch.setattr(hardware, "_product_seconds", lambda: 1e-4)
    begin = time.perf_counter()
    assert hardware.calibrate_threads(lambda _: _Timed(milliseconds), [2, 1]) == chosen
    assert torch.get_num_threads() == chosen
    assert time.perf_counter() - begin < 5.0
    torch.set_num_threads(1)


def test_calibration_skips_counts_that_stall(monkeypatch) -> None:
    monkeypatch.setattr(hardware, "_product_seconds", lambda: 1e-4 * torch.get_num_threads() ** 2)
    assert hardware.calibrate_threads(lambda _: _Timed({1: 2.0}), [1, 2]) == 1


def test_more_threads_must_be_clearly_faster() -> None:
    assert hardware.fewest_within({1: 1.24, 2: 1.03, 4: 1.0}) == 1
    assert hardware.fewest_within({1: 1.3, 2: 1.04, 4: 1.0}) == 2
    assert hardware.fewest_within({1: 1.0, 2: 30.0}) == 1


def test_a_large_model_is_not_timed_on_one_thread(monkeypatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 12)
    assert hardware.thread_candidates(10_000) == [1, 4, 8]
    assert hardware.thread_candidates(10**10) == [4, 8]
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert hardware.thread_candidates(10**10) == [1]


@pytest.mark.parametrize(
    ("setting", "counts"),
    [("1", [1]), ("6,2", [1, 3, 6]), ("64", [1, 4, 8]), ("0", [1, 4, 8]), ("all", [1, 4, 8])],
)
def test_threads_respect_omp_num_threads(monkeypatch, setting, counts) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 12)
    monkeypatch.setenv("OMP_NUM_THREADS", setting)
    assert hardware.thread_candidates(10_000) == counts


def test_reports_progress_and_silences_the_libraries(llama: Path, capfd) -> None:
    reports: list[Progress] = []
    verbosity = hf_logging.get_verbosity()
    load(llama, progress=reports.append)
    for role in ("target", "draft"):
        text = f"loading {role} {llama / role}"
        assert Progress(activity="loading", text=text) in reports
    assert capfd.readouterr() == ("", "")
    assert hf_logging.get_verbosity() == verbosity
    assert hf_logging.is_progress_bar_enabled()


def test_a_draft_is_its_target_with_noise() -> None:
    target = tiny_model()
    draft = noisy_copy(target)
    ids = torch.arange(40)[None]
    with torch.no_grad():
        agree = (target(ids).logits.argmax(-1) == draft(ids).logits.argmax(-1)).float().mean()
    assert 0.1 < agree < 0.95
    assert build(tiny_config(), seed=3).dtype == torch.float32


def test_free_memory() -> None:
    everything = psutil.virtual_memory().total + psutil.swap_memory().total
    free = hardware.free_memory(torch.device("cpu"))
    assert free is not None
    assert 0 < free <= everything
