"""From what the user typed to token ids, with or without the target's chat template."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import TemplateError

from specviz.engine.pair import Pair
from specviz.errors import PromptError


def encode_prompt(pair: Pair, prompt: str | Sequence[int], chat: bool) -> list[int]:
    """Token ids of a text, or the given ids themselves once they are known to mean something."""
    if not isinstance(prompt, str):
        return _checked_ids(pair, prompt)
    if not (prompt.strip() if chat else prompt):
        raise PromptError("The prompt is empty.", remedy="Type at least one word.")
    ids = chat_prompt(pair, prompt) if chat else list(pair.tokenizer(prompt)["input_ids"])
    return _checked_ids(pair, ids)


def chat_prompt(pair: Pair, text: str) -> list[int]:
    """The target's own template round the text, ready for the reply."""
    if not getattr(pair.tokenizer, "chat_template", None):
        raise PromptError(
            f"{pair.info.target.name} has no chat template.",
            remedy="Leave --chat out, or choose an instruct model as the target.",
        )
    try:
        ids = pair.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
        )
    except TemplateError as error:
        raise PromptError(
            f"The chat template of {pair.info.target.name} fails: {error}.",
            remedy="Leave --chat out, or choose another instruct model.",
        ) from error
    return [int(token_id) for token_id in ids]


def _checked_ids(pair: Pair, ids: Sequence[int]) -> list[int]:
    if not len(ids):
        raise PromptError("The prompt is empty.", remedy="Give at least one token.")
    for token_id in ids:
        if not 0 <= token_id < pair.vocabulary:
            raise PromptError(
                f"The prompt holds the id {token_id}, outside the pair's vocabulary.",
                remedy=f"Give ids from 0 to {pair.vocabulary - 1}.",
            )
    return [int(token_id) for token_id in ids]
