"""Refused pairs: one line with the culprit and the remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from specviz.engine.loading import hardware, sources
from specviz.engine.loading.loading import load_pair
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.library_step import LibraryStep
from specviz.errors import ConfigError, DeviceError, ModelFileError, PairError
from specviz.record.pairs import PairSpec
from tests.engine.asking import edit_json, load, refusal
from tests.engine.models import (
    VOCABULARY,
    small_tokenizer,
    tiny_model,
    write_model,
    write_pair,
)

Edit = Callable[[Path], object]


def test_a_family_without_rollback_is_refused_by_name(tmp_path: Path) -> None:
    message = refusal(PairError, write_pair(tmp_path, "mamba"))
    assert "belongs to the family mamba: such models read one token at a time" in message
    assert "another family" in message


def test_rejects_a_cache_with_wrong_rollback(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LibraryStep, "forget", lambda *_: None)
    assert "cannot roll their cache back" in refusal(PairError, llama)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"target": None}, "without a target"),
        ({"name": "tinystories"}, "Give either the pair"),
    ],
)
def test_rejects_incomplete_requests(llama: Path, settings: dict[str, object], words: str) -> None:
    assert words in refusal(PairError, llama, **settings)


def test_without_the_embedded_pair(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sources, "pairs_folder", lambda: tmp_path / "none")
    with pytest.raises(PairError, match=r"^The embedded pair is not installed: "):
        load_pair(PairSpec())


def _remove(name: str) -> Edit:
    return lambda folder: (folder / name).unlink()


def _pickle_only(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _truncate(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def _index(shards: dict[str, str]) -> Edit:
    def edit(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": shards}))

    return edit


def _config(**changes: object) -> Edit:
    return lambda folder: edit_json(folder / "config.json", **changes)


def _without_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()


def _nested(name: str) -> Edit:
    return lambda folder: (folder / name).write_text('{"a":' * 100_000 + "1" + "}" * 100_000)


def _ends(value: object, file: str = "generation_config.json") -> Edit:
    return lambda folder: (folder / file).write_text(
        json.dumps(json.loads((folder / file).read_text()) | {"eos_token_id": value})
    )


_OWN_CODE = _config(model_type="mine", auto_map={"AutoModelForCausalLM": "modeling.Mine"})


@pytest.mark.parametrize(
    ("edit", "culprit", "remedy"),
    [
        (_remove("config.json"), "contains no model", "Give a folder"),
        (_remove("model.safetensors"), "no weights in safetensors", "convert"),
        (_pickle_only, "pickle checkpoint (pytorch_model.bin)", "Convert the checkpoint"),
        (_truncate, "model.safetensors of", "Copy or download the file again"),
        (lambda f: (f / "model.safetensors").write_bytes(b""), "truncated or broken", "again"),
        (lambda f: (f / "config.json").write_text('{"model'), "cannot be read", "again"),
        (lambda f: (f / "config.json").write_text("[1]"), "cannot be read", "again"),
        (lambda f: (f / "tokenizer.json").write_text("{"), "tokenizer of", "again"),
        (_without_tokenizer, "no tokenizer files", "tokenizer.json"),
        (_index({"a": "model-00001-of-00002.safetensors"}), "lacks its weights file", "again"),
        (_index([]), "index.json", "again"),  # pyright: ignore[reportArgumentType]
        (_index({"a": "../draft/model.safetensors"}), "index.json", "again"),
        (_index({"a": "/etc/passwd"}), "index.json", "again"),
        (_OWN_CODE, "brings its own model code", "family that transformers itself supports"),
        (_config(model_type="mine"), "family 'mine'", "Choose another model"),
        (_config(model_type=None), "family None", "Choose another model"),
        (_config(model_type="t5"), "not a causal language model (t5)", "decoder-only"),
        (_config(model_type="bert", architectures=["BertForMaskedLM"]), "(bert)", "decoder"),
        (_config(model_type="bart", is_encoder_decoder=True), "(bart)", "decoder-only"),
        (_config(model_type=["llama"]), "family ['llama']", "Choose another model"),
        (_config(model_type={"a": 1}), "family {'a': 1}", "Choose another model"),
        (_nested("config.json"), "config.json of", "again"),
        (_nested("generation_config.json"), "generation_config.json of", "again"),
        (_config(num_hidden_layers=10**7), "asks for 1e+07 layers", "at most 1,000"),
        (_config(n_layer=10**7), "asks for 1e+07 layers", "at most 1,000"),
        (_config(text_config={"num_layers": 10**7}), "asks for 1e+07 layers", "at most 1,000"),
        (_config(num_hidden_layers=float("inf")), "asks for inf layers", "at most 1,000"),
        (_config(num_experts=10**7), "asks for 1e+07 experts", "at most 4,096"),
        (_config(padding=" " * (5 * 2**20)), "config.json of", "again"),
        (_ends("x"), "names 'x' as its end-of-text token", "number"),
        (_ends([[1], None]), "names [[1], None] as its end-of-text token", "number"),
        (_ends(True), "names True as its end-of-text token", "number"),
        (_ends("x", "config.json"), "config.json of", "number"),
        (_config(num_hidden_layers=3), "lack model.layers.2.", "complete"),
        (_config(hidden_size=48), "cannot be loaded", "choose another"),
        (_config(hidden_size="wide"), "cannot be loaded", "choose another"),
    ],
)
@pytest.mark.parametrize("role", ["draft", "target"])
def test_broken_folders(llama_copy: Path, role: str, edit: Edit, culprit: str, remedy: str) -> None:
    edit(llama_copy / role)
    message = refusal(PairError, llama_copy)
    assert culprit in message
    assert remedy in message
    assert str(llama_copy / role) in message


def test_a_file_must_be_a_gguf_file(llama_copy: Path) -> None:
    file = llama_copy / "target" / "model.safetensors"
    assert "is not a GGUF file" in refusal(ModelFileError, llama_copy, target=str(file))


def test_out_of_memory_before_and_while_loading(llama: Path, monkeypatch) -> None:
    monkeypatch.setattr(hardware, "free_memory", lambda _: 1000)
    message = refusal(DeviceError, llama)
    assert "does not fit" in message
    assert "--" not in message  # a page has no options
    monkeypatch.setattr(hardware, "free_memory", lambda _: None)
    for error in (
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory\nof 9 bytes"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to\nallocate"),
        MemoryError(),
    ):

        def fail(*args: object, raised: Exception = error, **settings: object) -> None:
            raise raised

        monkeypatch.setattr(hf.AutoModelForCausalLM, "from_pretrained", fail)
        assert "does not fit" in refusal(DeviceError, llama)


def test_rejects_nan_weights(tmp_path: Path) -> None:
    model = tiny_model()
    with torch.no_grad():
        model.get_parameter("lm_head.weight").fill_(float("nan"))
    write_model(tmp_path / "target", model, small_tokenizer())
    write_model(tmp_path / "draft", model, small_tokenizer())
    message = refusal(PairError, tmp_path)
    assert "lm_head.weight contains NaN or infinite values" in message
    assert "float32" not in message
    assert "--" not in message


def test_weights_too_large_for_half_precision_are_not_called_broken(llama_copy: Path) -> None:
    for role in ("target", "draft"):
        file = llama_copy / role / "model.safetensors"
        weights = load_file(file)
        weights["lm_head.weight"][0] = 1e6
        save_file(weights, file, metadata={"format": "pt"})
    message = refusal(PairError, llama_copy, dtype="float16")
    assert "not finite in float16" in message
    assert message.endswith("Use the dtype float32.")


def test_detects_a_nan_that_no_probe_reaches(llama_copy: Path) -> None:
    file = llama_copy / "target" / "model.safetensors"
    weights = load_file(file)
    weights["model.embed_tokens.weight"][-1, 0] = float("nan")
    save_file(weights, file, metadata={"format": "pt"})
    assert "embed_tokens.weight contains NaN or infinite values" in refusal(PairError, llama_copy)


@pytest.mark.parametrize("length", ["x", [[1]], -1, True])
def test_ignores_the_tokenizers_maximum_length(llama_copy: Path, length: object) -> None:
    edit_json(llama_copy / "target" / "tokenizer_config.json", model_max_length=length)
    assert encode_prompt(load(llama_copy), "Once upon a time", chat=False)


@pytest.mark.parametrize("named", [7, "llama", [7, None]])
def test_ignores_malformed_architectures(llama_copy: Path, named: object) -> None:
    edit_json(llama_copy / "target" / "config.json", architectures=named)
    assert load(llama_copy).info.target.family == "llama"


def test_rejects_different_tokenizers_with_the_first_difference(llama_copy: Path) -> None:
    file = llama_copy / "draft" / "tokenizer.json"
    data = json.loads(file.read_text())
    vocabulary = data["model"]["vocab"]
    first, second = (token for token, i in vocabulary.items() if i in (40, 50))
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    file.write_text(json.dumps(data))
    message = refusal(PairError, llama_copy)
    assert f"token 40 is {second!r} in the draft and {first!r} in the target" in message
    assert f"2 of {VOCABULARY} tokens differ" in message
    assert "draft of the target's model family" in message


@pytest.mark.parametrize(
    "settings",
    [
        {"threads": 0},
        {"threads": 257},
        {"threads": True},
        {"dtype": "int8"},
        {"step": "fast"},
        {"device": "gpu"},
        {"device": "xpu"},
    ],
)
def test_settings_outside_their_range(llama: Path, settings: dict[str, object]) -> None:
    refusal(ConfigError, llama, **settings)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has the device")
def test_a_missing_device(llama: Path) -> None:
    message = refusal(DeviceError, llama, device="cuda:1")
    assert "no device cuda:1" in message
    assert "cpu" in message
