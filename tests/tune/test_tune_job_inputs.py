"""The tune job with given costs and given texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.engine import Pair
from specviz.engine.model.chat import encode_prompt
from specviz.errors import PromptError
from specviz.record.scores import ScoredText
from specviz.record.trace import RunConfig, StepCosts
from specviz.tune import text_study
from specviz.tune.given_costs import given_costs
from specviz.tune.text_study import CostsFound, PairFound
from tests.traces import make_costs
from tests.tune.tune_pairs import (
    TEMPERATURES,
    TEXT,
    Watched,
    done,
    given_text,
    lane,
    question,
)

pytestmark = pytest.mark.usefixtures("pair")


# Costs


def test_given_costs_apply_to_every_temperature_without_measuring(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_args: object) -> None:
        raise AssertionError

    monkeypatch.setattr(text_study, "stored_costs", never)
    monkeypatch.setattr(text_study, "step_costs", never)
    given = given_costs(0.1, 1.3)
    (candidate,) = done(question(lane(folder)), given=given).answer.candidates
    assert candidate.costs == dict.fromkeys(TEMPERATURES, given)
    for cell in candidate.surface.cells:
        assert cell.speedup == pytest.approx(cell.tau / (0.1 * cell.gamma + 1.3))
    (bare,) = done(question(lane(folder)), wants_costs=False).answer.candidates
    assert bare.costs == {}
    assert {each.speedup for each in bare.surface.cells} == {None}
    assert len(bare.surface.cells) == len(candidate.surface.cells)


def test_stored_costs_come_before_texts_and_missing_ones_after(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Greedy steps have their own costs; sampled ones share theirs over temperatures."""
    measured: list[float] = []

    def stored(_pair: Pair, config: RunConfig, *, whole: bool) -> StepCosts | None:
        assert whole
        return make_costs() if config.temperature == 0 else None

    def measure(_pair: Pair, config: RunConfig) -> StepCosts | None:
        measured.append(config.temperature)
        return None if len(measured) > 1 else make_costs(draft=0.002)

    monkeypatch.setattr(text_study, "stored_costs", stored)
    monkeypatch.setattr(text_study, "step_costs", measure)
    values: list[object] = []
    asked = question(lane(folder), temperatures=(0.0, 0.5, 1.0))
    job = done(asked, Watched(values.append))
    kinds = [type(each) for each in values]
    assert kinds == [PairFound, CostsFound, *[ScoredText] * 9, CostsFound]
    assert measured == [0.5]
    (candidate,) = job.answer.candidates
    assert candidate.costs == {
        0.0: make_costs(), 0.5: make_costs(draft=0.002), 1.0: make_costs(draft=0.002),
    }  # fmt: skip
    (unknown,) = done(asked).answer.candidates  # there was no time for a second measurement
    assert set(unknown.costs) == {0.0}
    assert {each.temperature for each in unknown.surface.cells} == {0.0, 0.5, 1.0}


# Given texts


def test_first_token_of_a_given_text_is_the_prompt(folder: Path, pair: Pair) -> None:
    ids = encode_prompt(pair, TEXT, chat=False)
    (candidate,) = given_text(folder).answer.candidates
    for text in candidate.texts:
        assert (text.prompt.token_ids, text.token_ids) == (tuple(ids[:1]), tuple(ids[1:]))
        assert not text.own
    (candidate,) = given_text(folder, " girl", prompt="the little").answer.candidates
    assert candidate.texts[0].prompt.token_ids == tuple(
        encode_prompt(pair, "the little", chat=False)
    )


def test_reports_impossible_given_texts(folder: Path) -> None:
    answer = given_text(folder).answer
    sampled, greedy = answer.candidates[0].texts
    assert greedy.scores is not None
    assert greedy.scores.impossible_at is not None
    assert sampled.scores is not None
    assert sampled.scores.impossible_at is None
    assert answer.impossible == (greedy,)
    assert {each.temperature for each in answer.candidates[0].surface.cells} == {0.7}


@pytest.mark.parametrize(("text", "culprit"), [("a", "single token"), ("word " * 600, "context")])
def test_rejects_texts_that_cannot_be_scored(folder: Path, text: str, culprit: str) -> None:
    job = given_text(folder, text)
    assert job.state == "failed"
    assert isinstance(job.error, PromptError)
    assert culprit in str(job.error)
