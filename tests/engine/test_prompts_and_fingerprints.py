"""Prompt encoding with and without a chat template, and digests of weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.fingerprint import weights_sha256
from specviz.engine.model.pair import Pair
from specviz.errors import PromptError
from tests.engine.asking import load
from tests.engine.models import (
    CHAT_TEMPLATE,
    VOCABULARY,
    write_pair,
)


def test_the_fingerprint_follows_names_and_contents(tmp_path: Path) -> None:
    first, second = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    first.write_bytes(b"x" * 100)
    second.write_bytes(b"x" * 100)
    whole = weights_sha256([first, second])
    assert len(whole) == 64
    assert whole == weights_sha256([second, first])
    assert len({weights_sha256([first]), weights_sha256([second]), whole}) == 3
    second.write_bytes(b"x" * 99 + b"y")
    assert weights_sha256([first, second]) != whole


def test_large_files_are_sampled_including_both_ends(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    content = bytearray(3 << 20)
    seen = set()
    for place in (None, 0, len(content) // 2, len(content) - 1):
        if place is not None:
            content[place] ^= 1
        file.write_bytes(content)
        seen.add(weights_sha256([file], whole_limit=1 << 20))
    assert len(seen) == 4
    assert all(digest.startswith("sampled:") and len(digest) == 72 for digest in seen)


def test_prompts(llama_pair: Pair) -> None:
    ids = encode_prompt(llama_pair, "Once upon a time", chat=False)
    assert llama_pair.token_table.join(ids) == "Once upon a time"
    assert encode_prompt(llama_pair, tuple(ids), chat=False) == ids
    assert encode_prompt(llama_pair, " ", chat=False)
    for empty in ("", [], ()):
        with pytest.raises(PromptError, match="empty"):
            encode_prompt(llama_pair, empty, chat=False)
    for outside in ([1, VOCABULARY], [-1]):
        with pytest.raises(PromptError, match="is outside the pair's vocabulary"):
            encode_prompt(llama_pair, outside, chat=False)


def test_the_chat_template_wraps_the_prompt(tmp_path: Path, llama_pair: Pair) -> None:
    pair = load(write_pair(tmp_path, chat_template=CHAT_TEMPLATE))
    ids = encode_prompt(pair, "hello", chat=True)
    assert pair.token_table.join(ids) == "[user] hello\n[assistant] "
    chat = [{"role": "user", "content": "hello"}]
    asked = {"add_generation_prompt": True, "return_dict": False}
    assert ids == pair.tokenizer.apply_chat_template(chat, **asked)
    with pytest.raises(PromptError, match="empty"):
        encode_prompt(pair, " ", chat=True)
    with pytest.raises(PromptError, match=r"no chat template\. Turn the chat template off"):
        encode_prompt(llama_pair, "hello", chat=True)
    pair.tokenizer.chat_template = "{{ raise_exception('no users here') }}"
    with pytest.raises(PromptError, match="no users here"):
        encode_prompt(pair, "hello", chat=True)
