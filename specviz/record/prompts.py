"""Prompts: presets by kind, since acceptance depends on the kind, and suites of prompts.

Lanes are compared on a suite: the presets, or the user's JSONL file. Each line is an object with
``prompt`` and, to group the results, an optional ``kind``. A file with an invalid line is rejected
with the number of that line. Texts of a file are never executed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Never

from specviz import ASSETS
from specviz.errors import ConfigError
from specviz.record.numbers import SIZE

MAX_ITEMS = 500
MAX_SUITE_BYTES = 5 * 10**6
MAX_PROMPT = 100_000
MAX_KIND = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    kind: str
    title: str
    text: str


def read_presets() -> tuple[Preset, ...]:
    """Return the shipped presets, grouped by kind in display order."""
    path = ASSETS / "prompts.json"
    rows: list[dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Preset(**row) for row in rows)


def kind_of(text: str) -> str | None:
    """Return the kind of a preset's prompt; None for any other text."""
    return next((preset.kind for preset in read_presets() if preset.text == text), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteItem:
    """One prompt of a suite."""

    prompt: str
    kind: str | None = None


def preset_suite() -> tuple[SuiteItem, ...]:
    return tuple(SuiteItem(prompt=each.text, kind=each.kind) for each in read_presets())


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
    if not 1 <= len(numbered) <= MAX_ITEMS:
        raise ConfigError(
            f"{source} has {len(numbered)} prompts.", remedy=f"Give from 1 to {MAX_ITEMS}."
        )
    return tuple(_item(line, f"{source}, line {number}") for number, line in numbered)


def _item(line: str, where: str) -> SuiteItem:
    try:
        record = json.loads(line, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        _refuse(where, "is not JSON")
    if not isinstance(record, dict):
        _refuse(where, "is not an object")
    if record.keys() - {"prompt", "kind"}:
        _refuse(where, "has fields other than prompt and kind")
    prompt, kind = _prompt(record.get("prompt"), where), record.get("kind")
    if kind is not None:
        _check_kind(kind, where)
    return SuiteItem(prompt=prompt, kind=kind)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("duplicate key")
    return record


def _prompt(prompt: object, where: str) -> str:
    if not isinstance(prompt, str) or not prompt:
        _refuse(where, "has no prompt")
    if len(prompt) > MAX_PROMPT:
        _refuse(where, f"has a prompt of more than {MAX_PROMPT:,} characters")
    try:
        prompt.encode()
    except UnicodeEncodeError:  # a lone surrogate from an escape
        _refuse(where, "has a prompt that is not Unicode text")
    return prompt


def _check_kind(kind: object, where: str) -> None:
    if not isinstance(kind, str) or not kind.strip() or not kind.isprintable():
        _refuse(where, "has a kind that is not printable text")
    if len(kind) > MAX_KIND:
        _refuse(where, f"has a kind of more than {MAX_KIND} characters")


def _refuse(where: str, problem: str) -> Never:
    raise ConfigError(
        f"{where} {problem}.", remedy='Write it as {"prompt": "…", "kind": "…"}, kind optional.'
    )
