"""The presets: five kinds, enough of each to forecast one from the others, no text twice."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest

from specviz.record.prompts import Preset, kind_of, read_presets

KINDS = ["story", "dialogue", "list", "copying", "off-domain"]


def test_kinds_stand_together_in_their_order() -> None:
    assert [kind for kind, _ in groupby(preset.kind for preset in read_presets())] == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_at_least_five_of_each_kind(kind: str) -> None:
    assert Counter(preset.kind for preset in read_presets())[kind] >= 5


@pytest.mark.parametrize("part", ["title", "text"])
def test_no_title_and_no_text_twice(part: str) -> None:
    values = [getattr(preset, part) for preset in read_presets()]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("preset", read_presets(), ids=lambda preset: preset.title)
def test_every_preset_is_ready_to_be_continued(preset: Preset) -> None:
    assert preset.title.strip() == preset.title != ""
    assert preset.text.strip() == preset.text != ""  # a space at the end would be half a token


def test_the_kind_of_a_text() -> None:
    for preset in read_presets():
        assert kind_of(preset.text) == preset.kind
    first = read_presets()[0].text
    for other in ("", first[:-1], f"{first} ", first.upper()):
        assert kind_of(other) is None
