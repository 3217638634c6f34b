"""Encode prompts as token ids, with or without the target's chat template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz.engine.model.chat_template import render_chat
from specviz.engine.model.libraries import loading_errors
from specviz.engine.model.pair import Pair
from specviz.errors import PromptError
from specviz.record.conversations import Conversation, PromptLike, TypedPrompt
from specviz.values import Value


class Reader(Value, eq=False):
    """The parts of a pair that encode a prompt; no weights are needed."""

    tokenizer: Any
    vocabulary: int
    target_name: str


def encode_prompt(pair: Pair, prompt: PromptLike, chat: bool) -> list[int]:
    """Return the token ids of a text or a conversation.

    If the prompt is already a sequence of ids, only check the ids.

    Raises:
        PromptError: the prompt is empty, an id is outside the vocabulary, the chat template is
            missing or fails, or ``chat`` is false for a conversation.
    """
    return prompt_ids(_reader(pair), prompt, chat)


def prompt_ids(reader: Reader, prompt: PromptLike, chat: bool) -> list[int]:
    """Return the same token ids as ``encode_prompt``, but without a loaded pair."""
    if isinstance(prompt, Sequence) and not isinstance(prompt, str):
        return _checked_ids(reader, prompt)
    last = prompt if isinstance(prompt, str) else prompt.text
    if not (last.strip() if chat else last):
        raise PromptError("The prompt is empty.", remedy="Type at least one word.")
    if chat:
        prompt = _in_template(reader, prompt)
    elif not isinstance(prompt, str):
        raise _no_conversation(reader)
    with loading_errors(reader.target_name, "tokenizer"):
        ids = list(reader.tokenizer(prompt, add_special_tokens=not chat)["input_ids"])
    return _checked_ids(reader, ids)


def _reader(pair: Pair) -> Reader:
    return Reader(
        tokenizer=pair.tokenizer, vocabulary=pair.vocabulary, target_name=pair.info.target.name
    )


def _in_template(reader: Reader, prompt: TypedPrompt) -> str:
    if not getattr(reader.tokenizer, "chat_template", None):
        raise PromptError(
            f"{reader.target_name} has no chat template.",
            remedy="Turn the chat template off, or choose an instruct model as the target.",
        )
    asked = Conversation(before=(), text=prompt) if isinstance(prompt, str) else prompt
    return render_chat(reader.tokenizer, reader.target_name, asked.messages)


def _no_conversation(reader: Reader) -> PromptError:
    if getattr(reader.tokenizer, "chat_template", None):
        return PromptError(
            "A conversation needs the target's chat template.", remedy="Turn the chat template on."
        )
    return PromptError(
        f"The prompt is a conversation, and {reader.target_name} has no chat template.",
        remedy="Choose other prompts, or an instruct model as the target.",
    )


def _checked_ids(reader: Reader, ids: Sequence[int]) -> list[int]:
    if not len(ids):
        raise PromptError("The prompt is empty.", remedy="Give at least one token.")
    for token_id in ids:
        if not 0 <= token_id < reader.vocabulary:
            raise PromptError(
                f"The prompt's token id {token_id} is outside the pair's vocabulary.",
                remedy=f"Use ids from 0 to {reader.vocabulary - 1}.",
            )
    return [int(token_id) for token_id in ids]
