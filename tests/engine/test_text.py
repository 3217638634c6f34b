"""Token texts: bytes by id, and characters split over several ids."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from specviz.engine.model.text import TokenTable, make_token_table
from tests.engine.models import END, small_tokenizer

TEXTS = (
    "Once upon a time there was a little girl.",
    "naïve café, 日本語, Ω\n\ttabs  and   spaces ",
    "🙂👩‍👩‍👧 done",
    "a\u202eb",
)


def sentencepiece_like() -> PreTrainedTokenizerFast:
    """Pieces with a visible space, and byte tokens for the rest."""
    words = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words += ["▁", "a", "b", "▁a", "▁ab", "é"]
    vocabulary = {word: index for index, word in enumerate(words)}
    merges = [("▁", "a"), ("▁a", "b")]
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(["</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


@pytest.mark.parametrize("text", TEXTS)
def test_byte_level_ids_join_to_the_text(text: str) -> None:
    tokenizer = small_tokenizer()
    table = make_token_table(tokenizer, 320)
    ids = tokenizer(text)["input_ids"]
    assert table.join(ids) == text == tokenizer.decode(ids)
    assert b"".join(table.pieces[i] for i in ids) == text.encode()


def test_an_emoji_split_over_tokens_is_whole_once_joined() -> None:
    tokenizer = small_tokenizer()
    table = make_token_table(tokenizer, 320)
    ids = tokenizer("🙂")["input_ids"]
    assert len(ids) == 4
    assert [table.pieces[i] for i in ids] == [bytes([byte]) for byte in "🙂".encode()]
    assert all(table.text(i) == "\ufffd" for i in ids)
    assert table.join(ids) == "🙂"
    assert "🙂" not in table.join(ids[:3])
    assert table.join([*ids[:3], *tokenizer("x")["input_ids"]]).endswith("x")


@pytest.mark.parametrize("text", ["ab a", " ab", "é ab 🙂", "日本 a"])
def test_sentencepiece_ids_join_to_the_text(text: str) -> None:
    tokenizer = sentencepiece_like()
    table = make_token_table(tokenizer, len(tokenizer))
    ids = tokenizer(text)["input_ids"]
    assert table.join(ids) == text == tokenizer.decode(ids)


def test_sentencepiece_pieces() -> None:
    tokenizer = sentencepiece_like()
    table = make_token_table(tokenizer, len(tokenizer))
    at = tokenizer.get_vocab()
    assert table.text(at["▁ab"]) == " ab"
    assert table.text(at["▁"]) == " "
    assert table.text(at["</s>"]) == "</s>"
    assert table.pieces[at["<0xF0>"]] == b"\xf0"
    assert table.text(at["é"]) == "é"


def test_special_and_added_tokens_are_their_own_text() -> None:
    tokenizer = small_tokenizer()
    tokenizer.add_tokens(["naïve Ġ"])
    size = len(tokenizer)
    table = make_token_table(tokenizer, size)
    assert table.text(tokenizer.get_vocab()[END]) == END
    assert table.text(size - 1) == "naïve Ġ"


def test_ids_beyond_the_tokenizer_are_empty() -> None:
    tokenizer = small_tokenizer()
    table = make_token_table(tokenizer, len(tokenizer) + 5)
    assert table.text(len(tokenizer) + 2) == ""
    assert table.text(10**6) == ""
    assert table.join([len(tokenizer) + 2, 10**6]) == ""


def test_invalid_byte_tokens_are_text() -> None:
    tokenizer = sentencepiece_like()
    tokenizer.backend_tokenizer.add_tokens(["<0xGG>"])
    table = make_token_table(tokenizer, len(tokenizer))
    assert table.text(len(tokenizer) - 1) == "<0xGG>"


def test_joining_no_tokens_gives_an_empty_text() -> None:
    assert TokenTable((b"a",), ("a",)).join([]) == ""
