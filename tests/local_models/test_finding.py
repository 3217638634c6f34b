"""Models of every program are found; what cannot be used is skipped with its reason."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.errors import ConfigError
from specviz.local_models.added_folders import add_folders, added_folders, forget_folder
from specviz.local_models.chat_templates import place_has_chat
from specviz.local_models.finding import Found, find_models
from specviz.local_models.headers import Headers
from specviz.local_models.naming import with_places
from specviz.record.pairs import PairSpec
from tests.formats.hostile_gguf import HOSTILE
from tests.formats.tiny_gguf import tiny_gguf

SCAN_SECONDS = 2.0  # for 500 models


def by_origin(found: Found) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for each in found.models:
        names.setdefault(each.origin, []).append(each.name)
    return names


def test_the_template_of_a_hub_model_is_known_once_its_small_files_are_here(home: Path) -> None:
    configs = {"chat": '{"chat_template": "{{ messages }}"}', "plain": "{}", "partly": None}
    for name, config in configs.items():
        folder = home / ".cache" / "huggingface" / "hub" / f"models--maker--{name}"
        snapshot = folder / "snapshots" / ("4" * 40)
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text("{}")
        if config is not None:
            (snapshot / "tokenizer_config.json").write_text(config)
    assert (place_has_chat("maker/chat"), place_has_chat("maker/plain")) == (True, False)
    for unknown in ("maker/partly", "maker/other", "maker/\0", "../chat", "x" * 300):
        assert place_has_chat(unknown) is None


def test_models_of_every_program_are_found(home: Path) -> None:
    found = find_models()
    names = by_origin(found)
    names.pop("specviz", None)  # the chat model, where it is installed
    assert names == {
        "Hugging Face": ["maker/big", "maker/small"],
        "LM Studio": ["Tiny-F32"],
        "Ollama": ["story:1m"],
        "llama.cpp": ["Split"],
    }
    places = {each.name: each.place for each in found.models}
    assert places["maker/big"] == "maker/big"
    assert places["story:1m"] == "ollama:story:1m"
    reasons = {each.name: each.reason for each in found.skipped}
    assert "missing" in reasons["user/lost"]
    assert "mmproj-Tiny" in reasons


def test_headers_say_what_a_model_is(home: Path) -> None:
    found = {each.name: each for each in find_models().models}
    big, tiny, split = found["maker/big"].facts, found["Tiny-F32"].facts, found["Split"].facts
    assert (big.format, big.family, big.quantization) == ("safetensors", "llama", "F32")
    assert (big.vocabulary, big.context, big.chat) == (320, 512, True)
    assert (tiny.format, tiny.family, tiny.chat) == ("GGUF", "llama", True)
    assert tiny.parameters == 40 * 32 + 4 * 32 * 32 + 3 * 64 * 32 + 3 * 32
    assert len(found["Split"].files) == 2
    assert split.file_bytes == sum(each.stat().st_size for each in found["Split"].files)


def test_a_name_leads_to_a_place(home: Path) -> None:
    spec = with_places(PairSpec(target="big", draft="story:1m"))
    assert (spec.target, spec.draft) == ("maker/big", "ollama:story:1m")
    assert with_places(PairSpec(target="gpt2")).target == "gpt2"  # a Hub id that is not here
    assert with_places(PairSpec(target=str(home))).target == str(home)


def test_equal_names_get_longer_ones(home: Path) -> None:
    folder = home / "own"
    for quantization in ("a", "b"):
        (folder / quantization).mkdir(parents=True)
        tiny_gguf(folder / quantization / "Twin.gguf", tokens=40)
    found = find_models([folder])
    twins = [each for each in found.models if each.name == "Twin"]
    assert len({each.short for each in twins}) == 2
    with pytest.raises(ConfigError, match="Several models"):
        found.named("Twin")
    assert all(found.named(each.short) == each for each in twins)
    assert len({each.short for each in found.models}) == len(found.models)


def test_added_folders_are_remembered(home: Path) -> None:
    folder = home / "more"
    folder.mkdir()
    tiny_gguf(folder / "Added.gguf", tokens=40)
    add_folders([folder])
    assert added_folders() == (folder,)
    assert "Added" in [each.name for each in find_models(added_folders()).models]
    assert forget_folder(folder) == ()
    with pytest.raises(ConfigError, match="not a folder"):
        add_folders([folder / "Added.gguf"])


def test_hostile_folders_end_and_crash_nothing(home: Path) -> None:
    folder = home / "hostile"
    folder.mkdir()
    for number, (content, _) in enumerate(HOSTILE.values()):
        (folder / f"{number}.gguf").write_bytes(content)
    (folder / "loop").symlink_to(folder)
    (folder / "dangling.gguf").symlink_to(folder / "nowhere")
    pickle = folder / "pickle"
    pickle.mkdir()
    (pickle / "config.json").write_text('{"model_type": "llama"}')
    (pickle / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    broken = folder / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("[" * 100_000)
    (broken / "model.safetensors").write_bytes(b"\xff" * 100)
    many = folder / "many"
    many.mkdir()
    for number in range(10_000):
        (many / f"{number}.txt").touch()
    began = time.process_time()
    found = find_models([folder])
    assert time.process_time() - began < 2 * SCAN_SECONDS
    own = [each for each in found.skipped if each.origin == str(folder)]
    assert len(own) == len(HOSTILE) + 3
    assert "pickle" in next(each.reason for each in own if each.name == "pickle")
    assert not [each for each in found.models if each.origin == str(folder)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_skipped(home: Path) -> None:
    folder = home / "closed"
    folder.mkdir(mode=0)
    skipped = find_models([folder]).skipped
    assert any(each.name == "closed" for each in skipped)


@pytest.mark.thorough
def test_five_hundred_headers_are_read_quickly_and_then_kept(home: Path) -> None:
    folder = home / "many"
    folder.mkdir()
    whole = tiny_gguf(home / "whole.gguf", tokens=32_000).read_bytes()
    for number in range(500):
        (folder / f"Model-{number}.gguf").write_bytes(whole)
    began = time.process_time()
    found = find_models([folder])
    took = time.process_time() - began
    print(f"500 headers: {took:.2f} s (bound {SCAN_SECONDS})")
    assert len(found.models) >= 500
    assert took < 2 * SCAN_SECONDS
    for path in folder.iterdir():
        times = path.stat()
        path.write_bytes(bytes(len(whole)))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert find_models([folder]) == found, "a header was read again"


def test_a_refused_model_is_found_once_it_is_complete(home: Path) -> None:
    folder, hub = home / "parts", home / ".cache" / "huggingface" / "hub"
    folder.mkdir()
    tiny_gguf(folder / "Late-00001-of-00002.gguf", tokens=50, parts=2)
    snapshot = hub / "models--maker--late" / "snapshots" / ("3" * 40)
    snapshot.mkdir(parents=True)
    before = find_models([folder])
    reasons = {each.name: each.reason for each in before.skipped}
    assert "missing" in reasons["Late"]
    assert "incomplete model" in reasons["maker/late"]
    tiny_gguf(folder / "Late-00002-of-00002.gguf", tokens=50, parts=2)
    for each in (hub / "models--maker--small" / "snapshots" / ("2" * 40)).iterdir():
        (snapshot / each.name).write_bytes(each.read_bytes())
    after = find_models([folder])
    assert {"Late", "maker/late"} <= {each.name for each in after.models}


def test_a_changed_file_is_read_again(home: Path) -> None:
    folder = home / "changing"
    folder.mkdir()
    path = tiny_gguf(folder / "Changing.gguf", tokens=40)
    headers = Headers()
    before = headers.facts(path)
    tiny_gguf(path, tokens=41)
    after = headers.facts(path)
    assert before.facts is not None
    assert after.facts == replace(
        before.facts, vocabulary=41, parameters=before.facts.parameters + 32,
        file_bytes=path.stat().st_size,
    )  # fmt: skip
