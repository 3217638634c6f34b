"""The tokens of GGUF files in a loaded pair: where a prompt begins, what ends it, and chats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specviz.engine.loading.loading import load_pair
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.pair import Pair
from specviz.record.conversations import Conversation, Message
from specviz.record.pairs import PairSpec
from tests.engine.models import tiny_model
from tests.formats.gguf_families import write_family
from tests.formats.vocabularies import (
    BEGIN,
    FINISH,
    RECORDED,
    RUNS,
    SPECIAL,
    add_pieces,
    add_words,
    pieces,
    strings,
    word_tokens,
)

Further = Callable[[Any], None]  # adds metadata to a GGUF writer

SIZES = {
    "context_length": 512, "block_count": 1, "embedding_length": 32, "feed_forward_length": 64,
    "attention.head_count": 4, "attention.head_count_kv": 2, "rope.freq_base": 10_000.0,
    "attention.layer_norm_rms_epsilon": 1e-6,
}  # fmt: skip
CHAT = (
    "{{ bos_token }}{% for message in messages %}<|end|>{{ message['role'] }}\n\n"
    "{{ message['content'] | trim }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<think>{% endif %}"
)
BEGIN_ID, FINISH_ID, END_ID, THINK_ID = (pieces().index(each) for each in (BEGIN, FINISH, *SPECIAL))


def nothing(writer: Any) -> None:
    del writer


def loaded(folder: Path, vocabulary: int, add_tokens: Further) -> Pair:
    """Return a tiny model with this vocabulary, read from a GGUF file."""
    model = tiny_model("llama", vocabulary=vocabulary, num_hidden_layers=1)
    path = write_family(
        folder / "model.gguf", model.requires_grad_(False), "llama", SIZES,
        lambda writer, _vocabulary: add_tokens(writer),
    )  # fmt: skip
    return load_pair(PairSpec(target=str(path), threads=1))


def of_pieces(folder: Path, further: Further = nothing, *, space: bool = True) -> Pair:
    def add_tokens(writer: Any) -> None:
        add_pieces(writer, space=space)
        further(writer)

    return loaded(folder, len(pieces()), add_tokens)


def of_words(folder: Path, pre: str, further: Further) -> Pair:
    merges = json.loads(RECORDED.read_text(encoding="utf-8"))["merges"]

    def add_tokens(writer: Any) -> None:
        add_words(writer, merges, pre)
        further(writer)

    return loaded(folder, len(word_tokens(merges)), add_tokens)


def adds(value: bool) -> Further:
    return lambda writer: writer.add_add_bos_token(value)


@pytest.mark.parametrize(
    ("further", "begins"), [(nothing, True), (adds(True), True), (adds(False), False)]
)
def test_pieces_begin_with_bos_unless_the_file_forbids_it(
    tmp_path: Path, further: Further, begins: bool
) -> None:
    pair = of_pieces(tmp_path, further)
    ids = encode_prompt(pair, "Hello world", chat=False)
    assert ids.count(BEGIN_ID) == begins
    assert (ids[0] == BEGIN_ID) == begins
    assert pair.tokenizer.bos_token == BEGIN
    assert pair.token_table.join(ids[begins:]) == " Hello world"


@pytest.mark.parametrize(
    ("pre", "further", "begins"),
    [
        ("qwen2", nothing, False),
        ("qwen2", adds(True), True),
        ("llama-bpe", nothing, True),
        ("llama-bpe", adds(False), False),
    ],
)
def test_a_pre_tokenizer_decides_on_bos_unless_the_file_does(
    tmp_path: Path, pre: str, further: Further, begins: bool
) -> None:
    pair = of_words(tmp_path, pre, further)
    ids = encode_prompt(pair, "Hello world", chat=False)
    text = SPECIAL[0] * begins + "Hello world"
    assert pair.token_table.join(ids) == text
    assert (ids[0] == pair.tokenizer.bos_token_id) == begins


@pytest.mark.parametrize(
    ("key", "token", "ends"),
    [
        ("eos", FINISH_ID, {FINISH_ID, END_ID}),
        ("eos", THINK_ID, {FINISH_ID, END_ID, THINK_ID}),
        ("eot", THINK_ID, {FINISH_ID, END_ID, THINK_ID}),
        ("eom", THINK_ID, {FINISH_ID, END_ID, THINK_ID}),
        ("eos", 10**6, {FINISH_ID, END_ID}),  # outside the vocabulary
    ],
)
def test_named_and_well_known_tokens_end_a_text(
    tmp_path: Path, key: str, token: int, ends: set[int]
) -> None:
    def name_end(writer: Any) -> None:
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", token)

    pair = of_pieces(tmp_path, name_end)
    assert pair.eos_ids == ends


def test_a_chat_is_rendered_with_bos_once_and_with_its_special_tokens(tmp_path: Path) -> None:
    pair = of_pieces(tmp_path, lambda writer: writer.add_chat_template(CHAT), space=False)
    before = (Message(role="user", content=" one "), Message(role="assistant", content="two"))
    chat = Conversation(before=before, text="three <b>")
    ids = encode_prompt(pair, chat, chat=True)
    parts = ["user\n\none", "assistant\n\ntwo", "user\n\nthree <b>"]
    text = BEGIN + "".join(f"<|end|>{part}{FINISH}" for part in parts) + "<think>"
    assert pair.tokenizer.decode(ids) == text
    special = [each for each in ids if each in (BEGIN_ID, FINISH_ID, END_ID, THINK_ID)]
    assert special == [BEGIN_ID, *([END_ID, FINISH_ID] * 3), THINK_ID]


@pytest.mark.parametrize("space", [True, False])
def test_the_texts_of_tokens_join_to_the_prompt(tmp_path: Path, space: bool) -> None:
    pair = of_pieces(tmp_path, space=space)
    table, emoji = pair.token_table, "\U0001f9ff"  # not in the vocabulary
    for text in [each for each in strings() if not any(run in each for run in (*SPECIAL, *RUNS))]:
        ids = pair.tokenizer.encode(text, add_special_tokens=False)
        assert table.join(ids) == " " * space + text
    ids = pair.tokenizer.encode(emoji, add_special_tokens=False)[-4:]
    assert table.join(ids) == emoji
    assert bytes.fromhex("".join(table.split(ids).values())) == emoji.encode()
