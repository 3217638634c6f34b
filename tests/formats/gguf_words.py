"""Write the vocabulary of a GPT-2-like tokenizer to a GGUF file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

_WORD, _CONTROL = 1, 3  # GGUF token types


def words_of(tokenizer: Path, chat_template: str | None = None) -> Callable[[Any, int], None]:
    """Read a ``tokenizer.json`` whose only special token is EOS; return ``add_tokens``."""
    record = json.loads(tokenizer.read_text(encoding="utf-8"))
    (end,) = record["added_tokens"]
    by_id = {place: word for word, place in record["model"]["vocab"].items()}
    by_id[end["id"]] = end["content"]

    def add_tokens(writer: Any, vocabulary: int) -> None:
        del vocabulary
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_list([by_id[place] for place in range(len(by_id))])
        writer.add_token_merges([" ".join(each) for each in record["model"]["merges"]])
        kinds = [_CONTROL if place == end["id"] else _WORD for place in range(len(by_id))]
        writer.add_token_types(kinds)
        writer.add_eos_token_id(end["id"])
        writer.add_add_bos_token(False)
        if chat_template is not None:
            writer.add_chat_template(chat_template)

    return add_tokens
