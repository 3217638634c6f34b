"""Prompts by kind: they show what a pair can do, and acceptance depends on the kind."""

from __future__ import annotations

import json
from dataclasses import dataclass

from specviz import ASSETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    kind: str
    title: str
    text: str


def read_presets() -> tuple[Preset, ...]:
    """The presets shipped with the project, grouped by kind in the order to show them."""
    path = ASSETS / "prompts.json"
    rows: list[dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Preset(**row) for row in rows)


def kind_of(text: str) -> str | None:
    """The kind of a preset's prompt; None for any other text."""
    return next((preset.kind for preset in read_presets() if preset.text == text), None)
