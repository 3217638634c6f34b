"""Models that cannot be used: one line that names the culprit and the remedy, in little time."""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from tests.engine.models import small_tokenizer, tiny_model, write_model
from tests.formats.hostile_gguf import HEAD, UNUSABLE
from tests.formats.tiny_gguf import tiny_gguf

SECONDS = 2.0  # of processor time
COPY_AGAIN = "Copy or download the file again."
GIVE_A_MODEL = "Give a model folder, a GGUF file or a Hub id."
OTHER_FILE = "Choose another file, or the model in safetensors format."
OTHER_MODEL = "Choose a decoder-only text model, such as Llama, Qwen or GPT-2."
CHECK_PERMISSIONS = "Check the file and its permissions."

Make = Callable[[Path], str | Path]  # makes a target in a folder


def written(content: bytes, name: str = "model.gguf") -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    return make


def configured(**config: Any) -> Make:
    """A model folder with this configuration and a tokenizer, but without weights."""

    def make(folder: Path) -> Path:
        model = folder / "model"
        small_tokenizer().save_pretrained(model)
        (model / "config.json").write_text(json.dumps(config))
        return model

    return make


def under_a_file(folder: Path) -> Path:
    (folder / "model.gguf").touch()
    return folder / "model.gguf" / "model"


def dangling(folder: Path) -> Path:
    (folder / "model.gguf").symlink_to(folder / "nowhere")
    return folder / "model.gguf"


def endless(folder: Path) -> Path:
    (folder / "model.gguf").symlink_to(folder / "model.gguf")
    return folder / "model.gguf"


def folder_named_as_a_file(folder: Path) -> Path:
    (folder / "model.gguf").mkdir()
    return folder / "model.gguf"


def folder_of_gguf_files(folder: Path) -> Path:
    tiny_gguf(folder / "Tiny-F32.gguf", tokens=40)
    return folder


def device(folder: Path) -> Path:
    """A file that can be opened, but not read, even by root."""
    (folder / "model.gguf").symlink_to("/proc/self/mem")
    return folder / "model.gguf"


def device_as_configuration(folder: Path) -> Path:
    (folder / "config.json").symlink_to("/proc/self/mem")
    return folder


def longest_folder(folder: Path) -> str:
    """A folder whose path is so long that the paths of its files are too long."""
    path = str(folder)
    most = os.pathconf(folder, "PC_PATH_MAX") - 1
    while len(path) < most - 256:
        path += "/" + "x" * 200
    path += "/" + "x" * (most - 1 - len(path) - 4)
    os.makedirs(path)
    return path


def closed_folder(folder: Path) -> Path:
    closed = folder / "closed"
    closed.mkdir(mode=0)
    return closed


def closed_file(folder: Path) -> Path:
    path = tiny_gguf(folder / "model.gguf", tokens=40)
    path.chmod(0)
    return path


def half_split(folder: Path) -> Path:
    return tiny_gguf(folder / "model-00001-of-00002.gguf", tokens=40, parts=2)


def cut_weights(folder: Path) -> Path:
    path = tiny_gguf(folder / "model.gguf", tokens=40)
    path.write_bytes(path.read_bytes()[:-100])
    return path


def without_tokenizer(folder: Path) -> Path:
    return write_model(folder / "model", tiny_model(num_hidden_layers=1), None)


@dataclass(frozen=True)
class Case:
    make: Make
    culprit: str  # {} is the target
    remedy: str


ENDLESS_TEXT = HEAD + struct.pack("<QQ", 0, 1) + struct.pack("<Q", 2**63) + bytes(60)
CASES = {
    "a path under a file": Case(under_a_file, "'{}' does not exist.", GIVE_A_MODEL),
    "a dangling link": Case(dangling, "'{}' does not exist.", GIVE_A_MODEL),
    "a link to itself": Case(endless, "'{}' does not exist.", GIVE_A_MODEL),
    "a folder named as a file": Case(
        folder_named_as_a_file, "{} contains no model: config.json is missing.", "Give a folder"
    ),
    "a folder of GGUF files": Case(
        folder_of_gguf_files, "{} holds GGUF files.", "such as Tiny-F32.gguf."
    ),
    "a file that fails when read": Case(
        device, "model.gguf cannot be read: ", CHECK_PERMISSIONS
    ),
    "a configuration that fails when read": Case(
        device_as_configuration, "config.json of {} cannot be read: ", CHECK_PERMISSIONS
    ),
    "a folder whose path is too long": Case(
        longest_folder, "cannot be read: File name too long.", CHECK_PERMISSIONS
    ),
    "a closed folder": Case(
        closed_folder, "config.json of {} cannot be read: Permission denied.", CHECK_PERMISSIONS
    ),
    "a closed file": Case(
        closed_file, "model.gguf cannot be read: Permission denied.", CHECK_PERMISSIONS
    ),
    "a vision model": Case(
        configured(model_type="llava", vision_config={}),
        "{} is not a causal language model (llava).", OTHER_MODEL,
    ),
    "an embedding model": Case(
        configured(model_type="bert", architectures=["BertModel"]),
        "{} is not a causal language model (bert).", OTHER_MODEL,
    ),
    "an embedding model in GGUF": Case(
        written(UNUSABLE["an embedding model"][0]), "{} cannot be used: an embedding model",
        OTHER_FILE,
    ),
    "a missing part": Case(
        half_split, "model-00002-of-00002.gguf is missing.", "download the missing part."
    ),
    "another magic": Case(
        written(b"GGML" + bytes(60)), "model.gguf is not a GGUF file.", "Choose a GGUF file"
    ),
    "a file cut in its header": Case(
        written(HEAD + bytes(4)), "model.gguf is truncated.", COPY_AGAIN
    ),
    "a file cut in its weights": Case(cut_weights, "model.gguf is truncated: ", COPY_AGAIN),
    "a text of 2**63 bytes": Case(
        written(ENDLESS_TEXT), "it claims to contain a text of 9,223,372,036,854,775,808 bytes.",
        COPY_AGAIN,
    ),
    "no tokenizer": Case(without_tokenizer, "{} has no tokenizer files.", "Put the tokenizer.json"),
    "no tokenizer in GGUF": Case(
        written(UNUSABLE["without a tokenizer"][0]),
        "{} cannot be used: a model without a tokenizer.", OTHER_FILE,
    ),
}  # fmt: skip
CLOSED = ("a closed folder", "a closed file")  # root may read everything


@pytest.fixture(scope="module", autouse=True)
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import what reads models and tokenizers before a time is taken."""
    folder = tmp_path_factory.mktemp("first")
    write_model(folder, tiny_model(num_hidden_layers=1), small_tokenizer())
    (folder / "model.safetensors").unlink()
    tiny_gguf(folder / "model.gguf", tokens=40, parts=2)
    for place in (folder, folder / "model.gguf"):
        assert main(["run", "Once", "--target", str(place), "--threads", "1"]) == 2


@pytest.mark.parametrize("name", CASES)
def test_a_model_that_cannot_be_used_is_refused_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name in CLOSED and os.geteuid() == 0:
        pytest.skip("root may read everything")
    if "fails when read" in name and not os.path.exists("/proc/self/mem"):
        pytest.skip("this system has no such file")
    case = CASES[name]
    target = str(case.make(tmp_path))
    capsys.readouterr()
    began = time.process_time()
    code = main(["run", "Once", "--target", target, "--threads", "1"])
    took = time.process_time() - began
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("error: ")
    assert printed.err.endswith(".\n")
    assert case.culprit.format(target) in printed.err
    assert case.remedy in printed.err
    assert took < 2 * SECONDS
