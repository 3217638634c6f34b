"""A chat's prompt in the text pane: roles in the place of the template's marks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.player.chat_parts import Part, prompt_parts
from specviz.record.conversations import Message
from specviz.record.trace import Prompt, Trace
from tests.paper_trace import paper_trace


def chat(
    tokens: list[str], text: str, before: tuple[Message, ...] = (), *, templated: bool = True
) -> Trace:
    trace = paper_trace()
    prompt = Prompt(
        text=text, token_ids=tuple(range(len(tokens))), token_texts=tuple(tokens), before=before
    )
    return replace(trace, prompt=prompt, pieces={}, config=replace(trace.config, chat=templated))


def shown(parts: list[Part]) -> list[str]:
    return [each if isinstance(each, str) else f"[{each['role']}]" for each in parts]


def test_roles_replace_the_marks_and_cut_tokens_at_the_messages() -> None:
    tokens = ["<s>", "user", "\n", "Who", " is Lily?\n", "<e>", "<s>", "bot", "\n", "A girl.",
              "<e>", "<s>", "user", "\nAnd", " Tom?", "<e>", "<s>", "bot", "\n"]  # fmt: skip
    before = (
        Message(role="user", content="Who is Lily?"),
        Message(role="assistant", content="A girl."),
    )
    assert shown(prompt_parts(chat(tokens, "And Tom?", before))) == [
        "[user]", "Who", " is Lily?", "[assistant]", "A girl.", "[user]", "And", " Tom?",
        "[assistant]",
    ]  # fmt: skip


def test_the_templates_own_message_is_one_mark() -> None:
    own = "<s>system\nYou are a helpful assistant, trained by people who care.<e>\n<s>user\n"
    parts = prompt_parts(chat([own, "Hello", "<e><s>bot\n"], "Hello"))
    assert shown(parts) == ["[template]", "[user]", "Hello", "[assistant]"]
    assert parts[0] == {"role": "template", "text": own}


@pytest.mark.parametrize("templated", [False, True])
def test_a_prompt_without_its_messages_stays_as_it_is(templated: bool) -> None:
    tokens = ["HELLO", "!"]
    parts = prompt_parts(chat(tokens, "Hello", templated=templated))
    assert shown(parts) == tokens
