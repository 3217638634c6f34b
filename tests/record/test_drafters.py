"""The table of draft methods."""

from __future__ import annotations

import pytest

from specviz.errors import ConfigError
from specviz.record.drafters import DRAFT_METHODS, chosen_drafter, first_method, methods_for
from specviz.record.trace import RunConfig


def test_settings_accept_exactly_the_names_in_the_table() -> None:
    for each in DRAFT_METHODS.values():
        name = f"{each.name}:3" if each.takes_number else each.name
        assert RunConfig(drafter=name).draft_method is each
        assert chosen_drafter(name).number == (3 if each.takes_number else 0)
    for wrong in ("guess", "model:2", "early-exit", "early-exit:0", "early-exit:x", "a.b:", ""):
        with pytest.raises(ConfigError, match="drafter is"):
            RunConfig(drafter=wrong)
    assert chosen_drafter("my_drafts.lookup:Best").method.own


def test_a_target_alone_has_only_methods_without_a_draft_model() -> None:
    assert methods_for("model") == ["model", "prompt-lookup", "suffix"]
    assert not any(DRAFT_METHODS[name].needs_draft for name in methods_for(""))
    assert first_method("model").needs_draft
    assert not first_method("").needs_draft
