"""Suites: the shipped prompts, files of each format, and invalid files."""

from __future__ import annotations

import json

import pytest

from specviz.comparison.plan import SuiteItem, preset_suite, read_suite
from specviz.errors import ConfigError
from specviz.record.prompts import (
    MAX_ITEMS,
    MAX_TURNS,
    Message,
    chat_suite,
    read_chat_prompts,
    read_presets,
)
from tests.record.hostile_suites import hostile_suites

POEM = Message(role="user", content="Write a poem.")
UNWRITTEN = Message(role="assistant", content="")
QUESTION = {"question_id": 81, "category": "writing", "turns": ["Write a poem.", "Shorter."]}
BEFORE = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


def test_the_presets_are_a_suite() -> None:
    assert [(item.prompt, item.kind) for item in preset_suite()] == [
        (preset.text, preset.kind) for preset in read_presets()
    ]


def test_the_chat_prompts_are_a_suite() -> None:
    assert [(item.prompt, item.kind, item.before) for item in chat_suite()] == [
        (prompt.text, prompt.kind, prompt.before) for prompt in read_chat_prompts()
    ]


def test_a_file_is_read_line_by_line() -> None:
    text = '\ufeff{"prompt": "a\\nb", "kind": "code"}\r\n\n{"prompt": "\u2028 <b>x</b>"}'
    assert read_suite(text, "s") == (
        SuiteItem(prompt="a\nb", kind="code"),
        SuiteItem(prompt="\u2028 <b>x</b>"),
    )


def test_the_error_names_the_invalid_line() -> None:
    with pytest.raises(ConfigError, match=r"mine\.jsonl, line 3 has an empty or missing prompt"):
        read_suite('{"prompt": "a"}\n\n{"kind": "b"}', "mine.jsonl")


def test_reads_earlier_messages_after_an_optional_system_message() -> None:
    said = [{"role": "system", "content": "Be brief."}, *BEFORE]
    lines = [json.dumps({"prompt": "c", "before": before}) for before in (said, BEFORE, [])]
    system = Message(role="system", content="Be brief.")
    user, assistant = Message(role="user", content="a"), Message(role="assistant", content="b")
    assert [item.before for item in read_suite("\n".join(lines), "s")] == [
        (system, user, assistant),
        (user, assistant),
        (),
    ]


def test_each_turn_of_mt_bench_is_an_item() -> None:
    text = json.dumps({**QUESTION, "reference": ["", "x"]})
    assert read_suite(text, "s") == (
        SuiteItem(prompt="Write a poem.", kind="writing"),
        SuiteItem(prompt="Shorter.", kind="writing", before=(POEM, UNWRITTEN)),
    )


def test_reads_human_eval() -> None:
    text = json.dumps({"task_id": "HumanEval/0", "prompt": "def f():\n", "test": "", "kind": 1})
    assert read_suite(text, "s") == (SuiteItem(prompt="def f():\n", kind="code"),)


def test_each_line_has_its_own_format() -> None:
    lines = [{"prompt": "a"}, QUESTION, {"task_id": 0, "prompt": "b"}]
    items = read_suite("\n".join(map(json.dumps, lines)), "s")
    assert [item.prompt for item in items] == ["a", *QUESTION["turns"], "b"]
    assert [item.kind for item in items] == [None, "writing", "writing", "code"]


def test_the_limit_counts_turns() -> None:
    question = json.dumps(QUESTION) + "\n"
    assert len(read_suite(question * (MAX_ITEMS // 2), "s")) == MAX_ITEMS
    with pytest.raises(ConfigError, match=f"s has {MAX_ITEMS + 2} prompts"):
        read_suite(question * (MAX_ITEMS // 2 + 1), "s")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({**QUESTION, "turns": []}, "a list of 1 to 8 turns"),
        ({**QUESTION, "turns": "a"}, "a list of 1 to 8 turns"),
        ({**QUESTION, "turns": ["a"] * (MAX_TURNS + 1)}, "a list of 1 to 8 turns"),
        ({**QUESTION, "turns": ["a", ""]}, "an empty or missing turn"),
        ({**QUESTION, "turns": [{"content": "a"}]}, "a turn that is not text"),
        ({**QUESTION, "turns": ["a" * 100_001]}, "a turn of more than 100,000 characters"),
        ({**QUESTION, "category": 1}, "a category that is not printable text"),
        ({"task_id": "HumanEval/0"}, "an empty or missing prompt"),
        ({"prompt": "c", "before": BEFORE[0]}, "earlier messages that are not a list"),
        ({"prompt": "c", "before": BEFORE[:1]}, "earlier messages that do not alternate"),
        ({"prompt": "c", "before": BEFORE[::-1]}, "earlier messages that do not alternate"),
        ({"prompt": "c", "before": BEFORE * MAX_TURNS}, "more than 8 turns"),
        ({"prompt": "c", "before": [{**BEFORE[0], "content": ""}]}, "an empty or missing message"),
        ({"prompt": "c", "before": [{"role": "user"}]}, "not an object with role and content"),
        ({"prompt": "c", "before": [{**BEFORE[0], "role": []}]}, "role is not one of"),
        ({"prompt": "c", "turns": ["a"]}, "fields other than prompt, kind and before"),
    ],
)
def test_the_error_names_the_problem_of_a_line(line: object, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"s, line 2 .*{problem}"):
        read_suite('{"prompt": "a"}\n' + json.dumps(line), "s")


@pytest.mark.parametrize("number", range(len(hostile_suites())))
def test_rejects_a_hostile_suite_with_a_one_line_error(number: int) -> None:
    text = hostile_suites()[number].decode("utf-8", "surrogateescape")
    with pytest.raises(ConfigError) as caught:
        read_suite(text, "s")
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 300
