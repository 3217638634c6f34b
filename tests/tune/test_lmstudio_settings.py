"""Tune's settings for LM Studio: fields of its Python SDK."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from specviz.tune.engine_settings import engine_settings
from specviz.tune.findings import Finding
from tests.tune.test_engine_settings import HOSTILE, finding, lookup, of, snippet

ENGINE = "LM Studio"


def assigned(found: Finding) -> dict[str, Any]:
    """Return what the snippet assigns, by name."""
    code = ast.parse(snippet(ENGINE, "", found).text)
    assigns = [each for each in code.body if isinstance(each, ast.Assign)]
    return {ast.unparse(each.targets[0]): each.value for each in assigns}


def config_of(found: Finding) -> dict[str, Any]:
    return ast.literal_eval(assigned(found)["config"])


def test_drafts_exactly_gamma_tokens() -> None:
    found = finding(temperature=0.7, top_k=40, top_p=0.9)
    assert config_of(found) == {
        "draftModel": "org/draft",
        "speculativeDecodingNumDraftTokensExact": 3,
        "speculativeDecodingMinDraftLengthToConsider": 0,
        "speculativeDecodingMinContinueDraftingProbability": 0.0,
        "temperature": 0.7,
        "topPSampling": 0.9,
        "topKSampling": 40,
        "minPSampling": 0.0,
    }
    made = snippet(ENGINE, "complete", found)
    assert (made.rule, made.tau) == ("match", pytest.approx(2.6))


def test_needs_a_draft_model() -> None:
    engines = [each.engine for each in engine_settings(lookup())]
    assert ENGINE not in engines
    assert len(engines) == 4


@pytest.mark.parametrize(("top_k", "temperature", "noted"), [(0, 0.7, 1), (5, 0.7, 0), (0, 0.0, 0)])
def test_no_field_turns_top_k_off(top_k: int, temperature: float, noted: int) -> None:
    found = finding(top_k=top_k, temperature=temperature)
    assert sum("top-k" in note for note in of(ENGINE, found).notes) == noted
    assert ("topKSampling" in config_of(found)) == bool(top_k and temperature)


@pytest.mark.parametrize("text", HOSTILE)
def test_names_and_prompts_are_quoted(text: str) -> None:
    for chat in (False, True):
        found = finding(target=text, draft=f"{text}-draft", prompt=text, chat=chat)
        assert config_of(found)["draftModel"] == f"{text}-draft"
        model, result = assigned(found)["model"], assigned(found)["result"]
        assert ast.literal_eval(model.args[0]) == text
        assert ast.unparse(result.func) == ("model.respond" if chat else "model.complete")
        asked = {"messages": [{"role": "user", "content": text}]} if chat else text
        assert ast.literal_eval(result.args[0]) == asked
