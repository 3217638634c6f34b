"""Vocabularies of our own in GGUF files: a byte-level one and a SentencePiece one.

The byte-level one is written under any pre-tokenizer. Its merges cross words, digits and scripts,
which makes every difference between pre-tokenizers visible. The merges are part of
``recorded_tokens.json``, because a trainer may order them differently one day. The SentencePiece
one has parts of the hard strings with random scores, so the order of merging matters everywhere.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import gguf
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from specviz.formats.token_bytes import byte_of_letter
from tests.formats.hard_strings import hard_strings
from tests.formats.llamacpp_tokens import add_tiny_model

RECORDED = Path(__file__).parent / "recorded_tokens.json"
SPECIAL = ("<|end|>", "<think>")  # a control token and a user-defined one
STRINGS, BLOCK = 2_000, 50  # strings, and strings for one recorded digest
PIECES = {"space": True, "no space": False}  # whether a space is put before a text
UNKNOWN, BEGIN, FINISH = "<unk>", "<s>", "</s>"
RUNS = ("  ", "\n\n", "\n\n\n")  # white space that Gemma's vocabulary has as user-defined tokens


def strings() -> list[str]:
    return hard_strings(STRINGS, SPECIAL)


def trained_merges(size: int = 1_500) -> list[str]:
    """Train merges on the hard strings, without cutting them into words."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(  # pyright: ignore
        add_prefix_space=False, use_regex=False
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=sorted(byte_of_letter()), show_progress=False
    )
    tokenizer.train_from_iterator(hard_strings(4_000, seed=1), trainer)
    record = json.loads(tokenizer.to_str())
    return [" ".join(each) for each in record["model"]["merges"]]


def word_tokens(merges: list[str]) -> list[str]:
    joined = (merge.replace(" ", "") for merge in merges)
    return list(dict.fromkeys([*sorted(byte_of_letter()), *joined, *SPECIAL]))


def add_words(writer: Any, merges: list[str], pre: str) -> None:
    """Add the byte-level vocabulary and the name of a pre-tokenizer to a GGUF writer."""
    tokens = word_tokens(merges)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_merges(merges)
    kinds = {SPECIAL[0]: gguf.TokenType.CONTROL, SPECIAL[1]: gguf.TokenType.USER_DEFINED}
    writer.add_token_types([kinds.get(each, gguf.TokenType.NORMAL) for each in tokens])
    writer.add_eos_token_id(tokens.index(SPECIAL[0]))
    writer.add_bos_token_id(tokens.index(SPECIAL[0]))


def write_vocabulary(path: Path, merges: list[str], pre: str) -> Path:
    """Write a GGUF file with this vocabulary, a tiny model and the name of a pre-tokenizer."""
    writer: Any = gguf.GGUFWriter(path, "llama")
    add_words(writer, merges, pre)
    add_tiny_model(writer, len(word_tokens(merges)))
    return path


@cache
def pieces(size: int = 4_000) -> tuple[str, ...]:
    """Return the tokens of the SentencePiece vocabulary; longer parts come in a random order."""
    draw = random.Random(3)
    texts = [text.replace(" ", "\u2581") for text in hard_strings(600, seed=1)]
    letters = sorted({letter for text in texts for letter in text})
    parts = {
        text[start : start + length]
        for text in texts
        for length in range(2, 7)
        for start in range(len(text) - length + 1)
    }
    longer = draw.sample(sorted(parts), size)
    named = (UNKNOWN, BEGIN, FINISH, *byte_pieces(), *SPECIAL, *RUNS)
    return tuple(dict.fromkeys((*named, *longer, *letters)))


def byte_pieces() -> list[str]:
    return [f"<0x{byte:02X}>" for byte in range(256)]


def add_pieces(writer: Any, *, space: bool = True) -> None:
    """Add the SentencePiece vocabulary to a GGUF writer.

    Args:
        space: Put a space before a text, as Llama 2 does and Gemma does not.
    """
    tokens = list(pieces())
    kinds = dict.fromkeys(tokens, gguf.TokenType.NORMAL)
    kinds |= dict.fromkeys(byte_pieces(), gguf.TokenType.BYTE)
    kinds |= dict.fromkeys((BEGIN, FINISH, SPECIAL[0]), gguf.TokenType.CONTROL)
    kinds |= dict.fromkeys((SPECIAL[1], *RUNS), gguf.TokenType.USER_DEFINED)
    kinds[UNKNOWN] = gguf.TokenType.UNKNOWN
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(rank) for rank in range(len(tokens))])
    writer.add_token_types([kinds[each] for each in tokens])
    writer.add_bos_token_id(tokens.index(BEGIN))
    writer.add_eos_token_id(tokens.index(FINISH))
    writer.add_unk_token_id(tokens.index(UNKNOWN))
    writer.add_add_space_prefix(space)


def write_pieces(path: Path, *, space: bool = True) -> Path:
    """Write a GGUF file with the SentencePiece vocabulary and a tiny model."""
    writer: Any = gguf.GGUFWriter(path, "llama")
    add_pieces(writer, space=space)
    add_tiny_model(writer, len(pieces()))
    return path
