"""The presets: five kinds, enough of each to forecast one from the others, no duplicates."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest

from specviz.record.prompts import Preset, kind_of, read_presets

KINDS = ["story", "dialogue", "list", "copying", "off-domain"]


def test_presets_are_grouped_by_kind() -> None:
    assert [kind for kind, _ in groupby(preset.kind for preset in read_presets())] == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_at_least_five_of_each_kind(kind: str) -> None:
    assert Counter(preset.kind for preset in read_presets())[kind] >= 5


@pytest.mark.parametrize("part", ["title", "text"])
def test_titles_and_texts_are_unique(part: str) -> None:
    values = [getattr(preset, part) for preset in read_presets()]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("preset", read_presets(), ids=lambda preset: preset.title)
def test_presets_have_no_outer_blanks(preset: Preset) -> None:
    assert preset.title.strip() == preset.title != ""
    assert preset.text.strip() == preset.text != ""  # a final space belongs to the next token


def test_the_kind_of_a_text() -> None:
    for preset in read_presets():
        assert kind_of(preset.text) == preset.kind
    first = read_presets()[0].text
    for other in ("", first[:-1], f"{first} ", first.upper()):
        assert kind_of(other) is None
