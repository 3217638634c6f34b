"""The table of ways to draft."""

from __future__ import annotations

from typing import get_args

import pytest

from specviz.errors import ConfigError
from specviz.record.drafters import DRAFT_METHODS, DrafterName, first_method, methods_for
from specviz.record.trace import RunConfig


def test_the_table_names_what_the_settings_may_name() -> None:
    assert tuple(DRAFT_METHODS) == get_args(DrafterName)
    assert all(RunConfig(drafter=each.name).draft_method is each for each in DRAFT_METHODS.values())
    with pytest.raises(ConfigError, match="model, prompt-lookup"):
        RunConfig(drafter="guess")  # pyright: ignore[reportArgumentType]


def test_a_target_alone_is_offered_what_needs_no_draft() -> None:
    assert methods_for(has_draft=True) == list(DRAFT_METHODS)
    assert not any(DRAFT_METHODS[name].needs_draft for name in methods_for(has_draft=False))
    assert first_method(has_draft=True).needs_draft
    assert not first_method(has_draft=False).needs_draft
