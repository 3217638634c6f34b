"""Reading headers of GGUF files: whole ones, and those that are damaged or lie."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from specviz.errors import ModelFileError
from specviz.formats.gguf_header import LongArray, read_header
from specviz.formats.gguf_parts import read_parts
from specviz.formats.gguf_support import refusal_of
from tests.formats.hostile_gguf import HEAD, HOSTILE, UNUSABLE, key
from tests.formats.tiny_gguf import tiny_gguf

SECONDS = 2.0


def test_a_header_has_values_tensors_and_long_arrays_on_demand(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", tokens=6_000)
    header = read_header(path)
    assert header.architecture == "llama"
    assert header.of_model("context_length") == 64
    tokens = header.values["tokenizer.ggml.tokens"]
    assert isinstance(tokens, LongArray)
    assert header.count("tokenizer.ggml.tokens") == 6_000
    assert header.strings("tokenizer.ggml.tokens")[5_999] == "token5999"
    assert header.text("tokenizer.chat_template") == "{{ messages }}"  # after the long arrays
    table = next(each for each in header.tensors if each.name == "token_embd.weight")
    assert table.shape == (6_000, 32)
    content = path.read_bytes()[table.start : table.start + table.size]
    assert np.frombuffer(content, np.float32)[0] == np.float32(0.01)


def test_a_token_that_looks_like_a_key_does_not_mislead(tmp_path: Path) -> None:
    """The end of a long array is found by the key after it; here a token contains such a key."""
    trap = "\0\0\0\0\0\0\0tokenizer.chat_template"
    path = tiny_gguf(tmp_path / "trap.gguf", tokens=6_000, last=trap)
    header = read_header(path)
    assert header.text("tokenizer.chat_template") == "{{ messages }}"
    assert header.strings("tokenizer.ggml.tokens")[-1] == trap


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    content, message = HOSTILE[name]
    path = tmp_path / "damaged.gguf"
    path.write_bytes(content)
    began = time.perf_counter()
    with pytest.raises(ModelFileError) as caught:
        read_header(path)
    assert time.perf_counter() - began < SECONDS
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("count", "message"), [(2**21, "0 dimensions"), (2**21 + 1, "2,097,153 texts")]
)
def test_a_large_file_that_claims_many_texts_is_refused_quickly(
    tmp_path: Path, count: int, message: str
) -> None:
    texts = key(b"tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, count))
    path = tmp_path / "large.gguf"
    path.write_bytes(HEAD + struct.pack("<QQ", 1, 1) + texts)
    os.truncate(path, 1 << 32)  # a sparse file
    began = time.process_time()
    with pytest.raises(ModelFileError, match=message):
        read_header(path)
    assert time.process_time() - began < 2 * SECONDS


@pytest.mark.parametrize("percent", range(1, 100, 7))
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, percent: int) -> None:
    whole = tiny_gguf(tmp_path / "whole.gguf", tokens=40).read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[: len(whole) * percent // 100])
    with pytest.raises(ModelFileError):
        read_header(path)


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_is_no_language_model_is_named(tmp_path: Path, name: str) -> None:
    content, reason = UNUSABLE[name]
    path = tmp_path / "other.gguf"
    path.write_bytes(content)
    assert reason in refusal_of(read_parts(path))


def test_a_split_file_needs_all_its_parts(tmp_path: Path) -> None:
    first = tiny_gguf(tmp_path / "model-00001-of-00002.gguf", tokens=40, parts=2)
    with pytest.raises(ModelFileError, match="00002-of-00002"):
        read_parts(first)
    second = tiny_gguf(tmp_path / "model-00002-of-00002.gguf", tokens=40, parts=2)
    assert len(read_parts(second)) == 2
    renamed = first.rename(tmp_path / "model.gguf")
    with pytest.raises(ModelFileError, match="one of 2 parts"):
        read_parts(renamed)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read"):
        read_header(tmp_path)  # a folder
