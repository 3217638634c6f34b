"""The shipped prompts (five kinds of presets, ten tasks of chat prompts) and typed prompts."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest

from specviz.errors import ConfigError
from specviz.record.conversations import Message
from specviz.record.prompts import (
    MAX_ITEMS,
    MAX_PROMPT,
    Preset,
    SuiteItem,
    kind_of,
    read_chat_prompts,
    read_presets,
    typed_suite,
    typed_text,
)

KINDS = ["story", "dialogue", "list", "copying", "off-domain"]
TASKS = [
    "rewrite",
    "summarise",
    "translate",
    "extract to JSON",
    "answer from a text",
    "write code",
    "edit code",
    "list",
    "open chat",
    "two-turn chat",
]
SHIPPED = (*read_presets(), *read_chat_prompts())


def test_presets_are_grouped_by_kind() -> None:
    assert [kind for kind, _ in groupby(preset.kind for preset in read_presets())] == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_at_least_five_of_each_kind(kind: str) -> None:
    assert Counter(preset.kind for preset in read_presets())[kind] >= 5


@pytest.mark.parametrize("part", ["title", "text"])
def test_titles_and_texts_are_unique(part: str) -> None:
    values = [getattr(preset, part) for preset in SHIPPED]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("preset", SHIPPED, ids=lambda preset: preset.title)
def test_prompts_have_no_outer_blanks(preset: Preset) -> None:
    assert preset.title.strip() == preset.title != ""
    assert preset.text.strip() == preset.text != ""  # a final space belongs to the next token


def test_the_kind_of_a_text() -> None:
    for preset in read_presets():
        assert kind_of(preset.text) == preset.kind
    first = read_presets()[0].text
    for other in ("", first[:-1], f"{first} ", first.upper()):
        assert kind_of(other) is None


def test_chat_prompts_are_six_of_each_task() -> None:
    tasks = [(task, len(list(same))) for task, same in groupby(read_chat_prompts(), _task)]
    assert tasks == [(task, 6) for task in TASKS]


def test_chat_prompts_have_20_to_1500_tokens() -> None:
    lengths = [_num_tokens(prompt) for prompt in read_chat_prompts()]
    assert 20 <= min(lengths) <= max(lengths) <= 1_500
    assert sum(length >= 1_200 for length in lengths) >= 2
    assert sum(300 <= length <= 800 for length in lengths) >= 5


def test_only_two_turn_prompts_have_earlier_messages() -> None:
    for prompt in read_chat_prompts():
        roles = [message.role for message in prompt.before]
        assert roles == (["user", "assistant"] if prompt.kind == TASKS[-1] else [])
        assert all(message.content for message in prompt.before)


def _task(prompt: Preset) -> str:
    return prompt.kind


def _num_tokens(prompt: Preset) -> float:
    """Return the length of a conversation at the usual 4 characters per token."""
    return sum(map(len, (prompt.text, *(each.content for each in prompt.before)))) / 4


class TestTypedPrompts:
    def test_lines_of_dashes_separate_prompts(self) -> None:
        found = typed_suite("\n---\nFirst\n\n- a list\n-- b\n-----  \n  Second \n---")
        assert [each.prompt for each in found] == ["First\n\n- a list\n-- b", "Second"]
        assert [each.kind for each in found] == ["First - a list -- b", "Second"]

    def test_kinds_are_short_and_printable(self) -> None:
        assert typed_suite("\u202e" + "word " * 99)[0].kind == "word " * 7 + "word…"
        shipped = read_presets()[0]
        assert typed_suite(shipped.text)[0].kind == shipped.kind

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("---\n \n---", "0 prompts"),
            ("a\n---\n" * (MAX_ITEMS + 1), "601 prompts"),
            ("a\n---\n" + "b" * (MAX_PROMPT + 1), "Prompt 2 has more than 100,000"),
        ],
    )
    def test_refuses_wrong_counts_and_long_prompts(self, text: str, words: str) -> None:
        with pytest.raises(ConfigError, match=words):
            typed_suite(text)

    def test_gives_back_only_prompts_that_can_be_typed(self) -> None:
        typed = typed_suite("One\n---\nTwo\nlines")
        text = typed_text(typed)
        assert text is not None
        assert typed_suite(text) == typed
        before = (Message(role="user", content="Hi"), Message(role="assistant", content="Hello"))
        others = (
            SuiteItem(prompt="One", kind="else"),
            SuiteItem(prompt="One\n---\nTwo", kind="One --- Two"),
            SuiteItem(prompt="One", kind="One", before=before),
            SuiteItem(prompt=" One", kind="One"),
            SuiteItem(prompt=""),
            SuiteItem(prompt="---"),
            SuiteItem(prompt="One\n---\n" * (MAX_ITEMS + 1)),
        )
        assert [typed_text((each,)) for each in others] == [None] * len(others)
