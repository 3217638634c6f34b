"""Our tokenizers give the ids that llama.cpp gave, under every supported pre-tokenizer."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from specviz.engine.loading.gguf_tokenizer import read_tokenizer
from specviz.formats.gguf_header import read_header
from specviz.formats.pre_tokenizers import PRE_TOKENIZERS
from specviz.formats.token_bytes import fingerprint_of, gguf_token_bytes, json_token_bytes
from tests.formats.check_tokenizers import digests, our_ids
from tests.formats.vocabularies import (
    BEGIN,
    PIECES,
    RECORDED,
    RUNS,
    SPECIAL,
    byte_pieces,
    pieces,
    strings,
    write_pieces,
    write_vocabulary,
)

# Names with the same rules have the same answers; one of each is enough.
DISTINCT = tuple({rules: name for name, rules in PRE_TOKENIZERS.items()}.values())


@cache
def recorded() -> dict[str, Any]:
    return json.loads(RECORDED.read_text(encoding="utf-8"))


def vocabulary(folder: Path, pre: str) -> Path:
    return write_vocabulary(folder / "vocabulary.gguf", recorded()["merges"], pre)


@pytest.mark.parametrize("pre", DISTINCT)
def test_ids_are_those_of_llama_cpp(tmp_path: Path, pre: str) -> None:
    tokenizer = read_tokenizer(read_header(vocabulary(tmp_path, pre)))
    assert digests(our_ids(tokenizer, strings())) == recorded()["digests"][pre]


@pytest.mark.parametrize("name", PIECES)
def test_ids_of_pieces_are_those_of_llama_cpp(tmp_path: Path, name: str) -> None:
    path = write_pieces(tmp_path / "pieces.gguf", space=PIECES[name])
    tokenizer = read_tokenizer(read_header(path))
    assert digests(our_ids(tokenizer, strings())) == recorded()["pieces"][name]


@pytest.mark.parametrize("name", PIECES)
def test_pieces_and_bytes_give_the_text_back(tmp_path: Path, name: str) -> None:
    path = write_pieces(tmp_path / "pieces.gguf", space=PIECES[name])
    header = read_header(path)
    tokenizer, tokens = read_tokenizer(header), gguf_token_bytes(header)
    bare = [text for text in strings() if not any(each in text for each in (*SPECIAL, *RUNS))]
    before = b" " if PIECES[name] else b""
    used: set[int] = set()
    for text in bare:
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids) == text
        assert b"".join(tokens[each] for each in ids) == before + text.encode()
        used |= set(ids)
    assert pieces().index(BEGIN) not in used
    lengths = {len(pieces()[each]) for each in used}
    assert lengths >= {1, 2, 3, 4, 5, 6}
    assert {pieces()[each] for each in used} & set(byte_pieces())


def test_every_supported_pre_tokenizer_was_checked() -> None:
    assert set(recorded()["digests"]) == set(PRE_TOKENIZERS)


def test_ids_give_the_text_back(tmp_path: Path) -> None:
    tokenizer = read_tokenizer(read_header(vocabulary(tmp_path, "qwen2")))
    for text in strings():
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids) == text


def test_tokens_of_both_formats_have_the_same_bytes(tmp_path: Path) -> None:
    path = vocabulary(tmp_path, "gpt-2")
    tokens = gguf_token_bytes(read_header(path))
    read_tokenizer(read_header(path)).save_pretrained(tmp_path)
    assert json_token_bytes(tmp_path / "tokenizer.json") == tokens
    assert tokens[len(tokens) - 2] == SPECIAL[0].encode()
    assert b" " in tokens.values()
    changed = tokens | {0: b"other"}
    assert fingerprint_of(changed) != fingerprint_of(tokens)


def test_pieces_of_both_formats_have_the_same_bytes(tmp_path: Path) -> None:
    path = write_pieces(tmp_path / "pieces.gguf")
    tokens = gguf_token_bytes(read_header(path))
    read_tokenizer(read_header(path)).save_pretrained(tmp_path)
    assert json_token_bytes(tmp_path / "tokenizer.json") == tokens
    assert tokens[pieces().index("<0x0A>")] == b"\n"
    assert tokens[pieces().index("\u2581")] == b" "
