"""Prompts: shipped presets and chat prompts, and suites of prompts, typed or read from a file.

Acceptance depends on the kind of prompt, such as code or stories, so each shipped prompt has a
kind. A suite is a set of prompts on which methods are compared: shipped prompts, typed prompts or
the user's JSONL file. Each line of a file has one of these formats, recognised by its field names:

* ours: ``prompt``, and optionally ``kind``, which groups the results, and ``before``, the earlier
  messages of the conversation as a list of objects with ``role`` and ``content``. No other fields.
* MT-bench and Spec-Bench: ``question_id``, ``turns`` and optionally ``category``, the kind. Each
  turn becomes an item; the target writes the answers to the turns before it.
* HumanEval: ``task_id`` and ``prompt``, of the kind "code".

The last two formats may have further fields, which are ignored. A file with an invalid line is
rejected, and the error gives the number of that line. Texts of a file are never executed.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, Never, get_args

from specviz import ASSETS
from specviz.errors import ConfigError
from specviz.record.conversations import Conversation, Message, Role, TypedPrompt
from specviz.record.numbers import SIZE
from specviz.values import Value

MAX_ITEMS = 600  # Spec-Bench has 560
MAX_SUITE_BYTES = 5 * 10**6
MAX_PROMPT = 100_000
MAX_KIND = 40
MAX_TURNS = 8
_DASHES = re.compile(r"^-{3,}[ \t]*$", re.MULTILINE)

_REMEDY = (
    'Write it as {"prompt": "…"}, with kind and before optional, '
    "or as in MT-bench, Spec-Bench or HumanEval."
)


class Preset(Value):
    """A shipped prompt; ``before`` holds the earlier messages of its conversation."""

    kind: str
    title: str
    text: str
    before: tuple[Message, ...] = ()


@cache
def read_presets() -> tuple[Preset, ...]:
    """Return the shipped texts to continue, grouped by kind in display order."""
    return tuple(Preset(**row) for row in _rows("prompts.json"))


@cache
def read_chat_prompts() -> tuple[Preset, ...]:
    """Return the shipped messages to chat models, grouped by task in display order."""
    return tuple(
        Preset(
            kind=row["task"],
            title=row["title"],
            text=row["text"],
            before=tuple(Message(**each) for each in row.get("before", ())),
        )
        for row in _rows("chat_prompts.json")
    )


def _rows(name: str) -> list[dict[str, Any]]:
    return json.loads((ASSETS / name).read_text(encoding="utf-8"))


def kind_of(text: str) -> str | None:
    """Return the kind of a shipped prompt; None for any other text."""
    shipped = (*read_presets(), *read_chat_prompts())
    return next((preset.kind for preset in shipped if preset.text == text), None)


class SuiteItem(Value):
    """One prompt of a suite; ``before`` holds the earlier messages of its conversation."""

    prompt: str
    kind: str | None = None
    before: tuple[Message, ...] = ()

    @property
    def whole(self) -> TypedPrompt:
        """The prompt as a ``Conversation`` if messages precede it, otherwise as text."""
        return Conversation(before=self.before, text=self.prompt) if self.before else self.prompt


def preset_suite() -> tuple[SuiteItem, ...]:
    return _suite_of(read_presets())


def chat_suite() -> tuple[SuiteItem, ...]:
    return _suite_of(read_chat_prompts())


NO_KIND = "no kind"  # of a prompt whose file names none
PRESETS, CHAT_PROMPTS = "The presets", "Chat prompts by task"
SHIPPED_SUITES = {PRESETS: preset_suite, CHAT_PROMPTS: chat_suite}


def _suite_of(presets: tuple[Preset, ...]) -> tuple[SuiteItem, ...]:
    return tuple(
        SuiteItem(prompt=each.text, kind=each.kind, before=each.before) for each in presets
    )


def read_suite(text: str, source: str) -> tuple[SuiteItem, ...]:
    """Parse a suite in JSONL; empty lines are skipped.

    Args:
        source: Name of the text in error messages.

    Raises:
        ConfigError: The suite is too large, or a line is invalid.
    """
    if len(text.encode(errors="surrogatepass")) > MAX_SUITE_BYTES:
        raise ConfigError(
            f"{source} is larger than {SIZE.shown(MAX_SUITE_BYTES)}.", remedy="Give fewer prompts."
        )
    # Not splitlines: a prompt may contain other Unicode line ends.
    lines = text.removeprefix("\ufeff").split("\n")
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    _check_count(len(numbered), source)  # before parsing: each line has at least one item
    items = tuple(
        item for number, line in numbered for item in _items(line, f"{source}, line {number}")
    )
    _check_count(len(items), source)
    return items


def typed_suite(text: str) -> tuple[SuiteItem, ...]:
    """Split a text into prompts at its lines of three or more dashes.

    A shipped prompt keeps its kind. For other prompts, the first words are the kind, so that each
    prompt has its own results.

    Raises:
        ConfigError: There is no prompt, there are too many prompts, or a prompt is too long.
    """
    prompts = [each.strip() for each in _DASHES.split(text) if each.strip()]
    _check_count(len(prompts), "The text")
    for number, each in enumerate(prompts, 1):
        if len(each) > MAX_PROMPT:
            raise ConfigError(
                f"Prompt {number} has more than {MAX_PROMPT:,} characters.", remedy="Shorten it."
            )
    return tuple(
        SuiteItem(prompt=each, kind=kind_of(each) or _first_words(each)) for each in prompts
    )


def typed_text(items: tuple[SuiteItem, ...]) -> str | None:
    """Return a text that ``typed_suite`` splits into these prompts; None if no text does."""
    text = "\n---\n".join(each.prompt for each in items)
    try:
        return text if typed_suite(text) == items else None
    except ConfigError:  # such as a prompt that consists of dashes
        return None


def _first_words(prompt: str) -> str:
    printable = "".join(each if each.isprintable() else " " for each in prompt)
    words = " ".join(printable.split())
    return words if len(words) <= MAX_KIND else words[: MAX_KIND - 1].rstrip() + "…"


def _check_count(count: int, source: str) -> None:
    if not 1 <= count <= MAX_ITEMS:
        raise ConfigError(f"{source} has {count} prompts.", remedy=f"Give from 1 to {MAX_ITEMS}.")


# Formats of a line


def _items(line: str, where: str) -> tuple[SuiteItem, ...]:
    record = _record(line, where)
    if "question_id" in record:
        return _question(record, where)
    if "task_id" in record:
        prompt = _filled(record.get("prompt"), "prompt", where)
        return (SuiteItem(prompt=prompt, kind="code"),)
    if record.keys() - {"prompt", "kind", "before"}:
        _refuse(where, "has fields other than prompt, kind and before")
    prompt = _filled(record.get("prompt"), "prompt", where)
    kind = _kind(record.get("kind"), "kind", where)
    before = _before(record.get("before", []), where)
    return (SuiteItem(prompt=prompt, kind=kind, before=before),)


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        _refuse(where, "is not JSON")
    if not isinstance(record, dict):
        _refuse(where, "is not an object")
    return record


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("duplicate key")
    return record


def _question(record: dict[str, Any], where: str) -> tuple[SuiteItem, ...]:
    turns = record.get("turns")
    if not isinstance(turns, list) or not 1 <= len(turns) <= MAX_TURNS:
        _refuse(where, f"does not have a list of 1 to {MAX_TURNS} turns")
    kind = _kind(record.get("category"), "category", where)
    items: list[SuiteItem] = []
    before: tuple[Message, ...] = ()
    for turn in turns:
        prompt = _filled(turn, "turn", where)
        items.append(SuiteItem(prompt=prompt, kind=kind, before=before))
        before += (Message(role="user", content=prompt), Message(role="assistant", content=""))
    return tuple(items)


def _before(messages: object, where: str) -> tuple[Message, ...]:
    if not isinstance(messages, list):
        _refuse(where, "has earlier messages that are not a list")
    made = tuple(_message(each, where) for each in messages)
    turns = made[1:] if made and made[0].role == "system" else made
    # Chat templates refuse other orders.
    if [each.role for each in turns] != ["user", "assistant"] * (len(turns) // 2):
        _refuse(where, "has earlier messages that do not alternate user and assistant")
    if len(turns) // 2 >= MAX_TURNS:
        _refuse(where, f"has more than {MAX_TURNS} turns")
    return made


def _message(message: object, where: str) -> Message:
    if not isinstance(message, dict) or message.keys() != {"role", "content"}:
        _refuse(where, "has a message that is not an object with role and content")
    role, content = message["role"], message["content"]
    if role not in get_args(Role):
        _refuse(where, f"has a message whose role is not one of {', '.join(get_args(Role))}")
    check = _text if role == "assistant" else _filled
    return Message(role=role, content=check(content, "message", where))


# Values of a field


def _filled(value: object, name: str, where: str) -> str:
    if value is None or value == "":
        _refuse(where, f"has an empty or missing {name}")
    return _text(value, name, where)


def _text(value: object, name: str, where: str) -> str:
    if not isinstance(value, str):
        _refuse(where, f"has a {name} that is not text")
    if len(value) > MAX_PROMPT:
        _refuse(where, f"has a {name} of more than {MAX_PROMPT:,} characters")
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate from an escape
        _refuse(where, f"has a {name} that is not Unicode text")
    return value


def _kind(value: object, name: str, where: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        _refuse(where, f"has a {name} that is not printable text")
    if len(value) > MAX_KIND:
        _refuse(where, f"has a {name} of more than {MAX_KIND} characters")
    return value


def _refuse(where: str, problem: str) -> Never:
    raise ConfigError(f"{where} {problem}.", remedy=_REMEDY)
