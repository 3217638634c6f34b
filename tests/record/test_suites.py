"""Suites: the presets, files, and invalid files."""

from __future__ import annotations

import pytest

from specviz.comparison.plan import SuiteItem, preset_suite, read_suite
from specviz.errors import ConfigError
from specviz.record.prompts import read_presets
from tests.record.hostile_suites import hostile_suites


def test_the_presets_are_a_suite() -> None:
    assert [(item.prompt, item.kind) for item in preset_suite()] == [
        (preset.text, preset.kind) for preset in read_presets()
    ]


def test_a_file_is_read_line_by_line() -> None:
    text = '\ufeff{"prompt": "a\\nb", "kind": "code"}\r\n\n{"prompt": "\u2028 <b>x</b>"}'
    assert read_suite(text, "s") == (
        SuiteItem(prompt="a\nb", kind="code"),
        SuiteItem(prompt="\u2028 <b>x</b>"),
    )


def test_the_error_names_the_invalid_line() -> None:
    with pytest.raises(ConfigError, match=r"mine\.jsonl, line 3 has no prompt"):
        read_suite('{"prompt": "a"}\n\n{"kind": "b"}', "mine.jsonl")


@pytest.mark.parametrize("number", range(len(hostile_suites())))
def test_rejects_a_hostile_suite_with_a_one_line_error(number: int) -> None:
    text = hostile_suites()[number].decode("utf-8", "surrogateescape")
    with pytest.raises(ConfigError) as caught:
        read_suite(text, "s")
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 300
