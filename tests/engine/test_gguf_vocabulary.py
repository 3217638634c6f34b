"""Vocabularies that are written to GGUF files from a ``tokenizer.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import pytest

from specviz.engine.loading.gguf_tokenizer import read_tokenizer
from specviz.engine.loading.gguf_vocabulary import vocabulary_of
from specviz.errors import ModelFileError
from specviz.formats.gguf_header import read_header
from specviz.formats.pre_tokenizers import PRE_TOKENIZERS
from tests.engine.models import small_tokenizer
from tests.formats.hard_strings import hard_strings
from tests.formats.llamacpp_tokens import add_tiny_model
from tests.formats.vocabularies import RECORDED, SPECIAL, write_vocabulary

DISTINCT = tuple({rules: name for name, rules in PRE_TOKENIZERS.items()}.values())


@pytest.mark.parametrize("pre", DISTINCT)
def test_a_pre_tokenizer_is_recognised_by_how_it_splits(pre: str, tmp_path: Path) -> None:
    merges = json.loads(RECORDED.read_text(encoding="utf-8"))["merges"]
    source = write_vocabulary(tmp_path / "vocabulary.gguf", merges, pre)
    tokenizer = read_tokenizer(read_header(source))
    tokenizer.save_pretrained(tmp_path)
    again = tmp_path / "again.gguf"
    writer: Any = gguf.GGUFWriter(again, "llama")
    count = len(tokenizer)
    vocabulary_of(tmp_path)(writer, count + 2)  # the embedding has two rows more
    add_tiny_model(writer, count + 2)
    header = read_header(again)
    assert PRE_TOKENIZERS[header.text("tokenizer.ggml.pre")] == PRE_TOKENIZERS[pre]
    assert header.strings("tokenizer.ggml.tokens")[count:] == [f"[PAD{count}]", f"[PAD{count + 1}]"]
    built = read_tokenizer(header)
    for text in hard_strings(60, SPECIAL):
        assert built(text)["input_ids"] == tokenizer(text)["input_ids"]


def test_a_tokenizer_without_a_gguf_name_is_refused(tmp_path: Path) -> None:
    small_tokenizer().save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    record = json.loads(path.read_text())
    record["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [{"type": "Punctuation", "behavior": "Isolated"}, record["pre_tokenizer"]],
    }
    path.write_text(json.dumps(record))
    with pytest.raises(ModelFileError, match="known GGUF pre-tokenizer"):
        vocabulary_of(tmp_path)
    record["model"]["type"] = "Unigram"
    path.write_text(json.dumps(record))
    with pytest.raises(ModelFileError, match="not a byte-level BPE"):
        vocabulary_of(tmp_path)
    path.unlink()
    with pytest.raises(ModelFileError, match=r"no tokenizer\.json"):
        vocabulary_of(tmp_path)
