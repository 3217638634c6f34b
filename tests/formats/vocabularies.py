"""A byte-level vocabulary of our own, whose merges cross words, written under any pre-tokenizer.

Merges across words, digits and scripts make every difference between pre-tokenizers visible. The
merges are part of ``recorded_tokens.json``, because a trainer may order them differently one day.
"""

from __future__ import annotations

import json
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


def write_vocabulary(path: Path, merges: list[str], pre: str) -> Path:
    """Write a GGUF file with this vocabulary, a tiny model and the name of a pre-tokenizer."""
    joined = (merge.replace(" ", "") for merge in merges)
    tokens = list(dict.fromkeys([*sorted(byte_of_letter()), *joined, *SPECIAL]))
    writer: Any = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_merges(merges)
    kinds = {SPECIAL[0]: gguf.TokenType.CONTROL, SPECIAL[1]: gguf.TokenType.USER_DEFINED}
    writer.add_token_types([kinds.get(each, gguf.TokenType.NORMAL) for each in tokens])
    writer.add_eos_token_id(tokens.index(SPECIAL[0]))
    writer.add_bos_token_id(tokens.index(SPECIAL[0]))
    add_tiny_model(writer, len(tokens))
    return path
