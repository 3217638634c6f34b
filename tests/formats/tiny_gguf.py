"""A small GGUF file with a vocabulary of any size and the weights of one layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf

from tests.formats.llamacpp_tokens import add_tiny_model


def tiny_gguf(
    path: Path, *, tokens: int, last: str = "", parts: int = 1, name: str = "tiny"
) -> Path:
    """Write the file.

    Args:
        last: The text of the last token.
        parts: What the file says about the number of files of the model.
    """
    writer: Any = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    if parts > 1:
        writer.add_uint16("split.count", parts)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    texts = [f"token{place}" for place in range(tokens)]
    writer.add_token_list([*texts[:-1], last or texts[-1]])
    writer.add_token_types([gguf.TokenType.NORMAL] * tokens)
    writer.add_token_merges(["t o", "to k"])
    writer.add_eos_token_id(0)
    writer.add_chat_template("{{ messages }}")
    add_tiny_model(writer, tokens)
    return path
