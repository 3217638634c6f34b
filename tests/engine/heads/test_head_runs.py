"""Runs with heads: exact at every temperature, on every kind of step, and repeatable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import torch

from specviz.engine import Pair, decode_plainly, speculate
from specviz.engine.decoding.costs import measure_step_costs
from specviz.engine.decoding.sampling import Sampler
from specviz.engine.decoding.timed_replay import TimedReplay
from specviz.engine.heads.following import ReadText, _one_by_one, acceptance_along
from specviz.engine.heads.opening import open_head
from specviz.engine.loading.head_loading import target_parts
from specviz.engine.model.growing import grow
from specviz.engine.model.pass_bytes import draft_bytes
from specviz.engine.model.step_capabilities import AFTER_NORM
from specviz.errors import PairError
from specviz.formats.heads import read_head
from specviz.record.bodies import Shape
from specviz.record.run_config import RunConfig
from specviz.record.step_costs import PassBytes
from specviz.record.trace import DraftingCosts, Round
from tests.engine.heads import tiny_heads
from tests.engine.heads.small_texts import (
    SMALL,
    exact,
    first_tokens,
    report_wrong_probabilities,
)
from tests.engine.heads.tiny_dflash import write_dflash
from tests.engine.heads.tiny_heads import LAYERS, VOCABULARY, write_eagle, write_eagle3
from tests.engine.heads.tiny_medusa import write_medusa
from tests.engine.models import pair_of, tiny_model
from tests.engine.playing import PROMPT, config, play, tokens
from tests.engine.test_lossless import ENOUGH, p_value

WRITERS: dict[str, Callable[[Path], Path]] = {
    "eagle": write_eagle,
    "eagle3": write_eagle3,
    "medusa": write_medusa,
    "dflash": write_dflash,
}
TEXTS = 600  # enough to detect the wrong probabilities below
PLACES = (AFTER_NORM, *range(LAYERS + 1))
SHORT = tuple(each % VOCABULARY for each in PROMPT)
COSTS = DraftingCosts(draft_first=0.1, draft_next=0.1, verify=(1.0, 1.4, 1.1, 1.2, 1.3, 1.4, 1.5))
METHODS: dict[str, dict[str, Any]] = {
    "plain": {},
    "block": {"rule": "block"},
    "coupled": {"rule": "coupled"},
    "match": {"rule": "match"},
    "sure": {"draft_until": "confidence:0.2", "gamma": 6},
    "while it pays": {"draft_until": "cost", "gamma": 6},
}


def with_head(pair: Pair, folder: Path, *, own_config: Any = None) -> Pair:
    facts = read_head(folder)
    assert facts is not None
    parts = target_parts("tiny-target", own_config or pair.target.config, pair)
    pair.head = open_head(facts, parts)
    return pair


@cache
def head_pair(kind: str, step: str = "lean") -> Pair:
    target = tiny_model("llama", vocabulary=VOCABULARY, num_hidden_layers=LAYERS, sigma=0.2)
    return with_head(pair_of(target, None, step=step), WRITERS[kind](Path(mkdtemp())))


def settings(kind: str, **changes: Any) -> RunConfig:
    return config(**{"drafter": method_of(kind), "gamma": 4, "max_new_tokens": 40} | changes)


def method_of(kind: str) -> str:
    return "eagle" if kind == "eagle3" else kind


def drafted_by(rounds: list[Round]) -> list[list[int]]:
    return [[each.token_id for each in entry.candidates] for entry in rounds]


# test_both_steps_give_the_same_rounds compares the steps for every kind
@pytest.mark.parametrize(
    ("kind", "step"),
    [
        *((kind, "lean") for kind in WRITERS),
        *(pytest.param(kind, "library", marks=pytest.mark.thorough) for kind in WRITERS),
    ],
)
def test_a_head_does_not_change_the_greedy_text(kind: str, step: str) -> None:
    pair = head_pair(kind, step)
    for changes in METHODS.values():
        chosen = settings(kind, temperature=0.0, record=False, **changes)
        run = speculate(pair, SHORT, chosen, costs=COSTS)
        rounds = list(run)
        assert run.emitted == tuple(decode_plainly(pair, SHORT, chosen))
        assert sum(entry.num_drafted for entry in rounds) > 0


@pytest.mark.parametrize("kind", WRITERS)
def test_both_steps_give_the_same_rounds(kind: str) -> None:
    chosen = settings(kind)
    library, lean = (play(head_pair(kind, step), chosen, SHORT) for step in ("library", "lean"))
    assert tokens(library) == tokens(lean)
    assert drafted_by(library) == drafted_by(lean)
    assert len({len(entry.emitted) for entry in lean}) > 1


@pytest.mark.parametrize("kind", WRITERS)
def test_the_first_pass_reads_the_rows_of_the_last_round(kind: str) -> None:
    rounds = play(head_pair(kind), settings(kind), SHORT)
    assert rounds[0].draft_catch_up == 1  # the prompt's other rows are read before the first round
    for before, entry in pairwise(rounds):
        assert entry.draft_catch_up == len(before.emitted)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_timed_replay_repeats_the_rounds(kind: str) -> None:
    pair, chosen = head_pair(kind), settings(kind)
    rounds = play(pair, chosen, SHORT)
    replay = TimedReplay(pair, SHORT, chosen, rounds)
    for first, last in ((2, 5), (0, 3), (4, len(rounds))):
        assert len(replay.speculative(first, last)) == last - first


@pytest.mark.parametrize("kind", WRITERS)
def test_a_body_changes_no_round(kind: str) -> None:
    pair = head_pair(kind)
    target: Any = pair.target
    grown = grow(target, Shape(width=128, feed_forward=160, layers=10), lambda *_: None)
    facts_of = WRITERS[kind](Path(mkdtemp()))
    large = with_head(pair_of(grown, None, step="lean"), facts_of, own_config=target.config)
    own, simulated = (play(each, settings(kind), SHORT) for each in (pair, large))
    assert tokens(simulated) == tokens(own)
    assert drafted_by(simulated) == drafted_by(own)


@pytest.mark.parametrize("length", [1, 2])
def test_a_short_prompt_is_continued(length: int) -> None:
    for kind in WRITERS:
        pair, chosen = head_pair(kind), settings(kind, temperature=0.0)
        run = speculate(pair, SHORT[:length], chosen)
        rounds = list(run)
        assert run.emitted == tuple(decode_plainly(pair, SHORT[:length], chosen))
        assert rounds[0].num_drafted == (0 if length == 1 else rounds[1].num_drafted)


@pytest.mark.parametrize("kind", WRITERS)
def test_rows_of_the_embedding_that_are_no_tokens_are_cut(kind: str) -> None:
    padded = replace(head_pair(kind), vocabulary=100)
    chosen = settings(kind, temperature=0.0)
    run = speculate(padded, (*SHORT[:1], 3, 7), chosen)
    rounds = list(run)
    assert run.emitted == tuple(decode_plainly(padded, (*SHORT[:1], 3, 7), chosen))
    assert max(token for drafted in drafted_by(rounds) for token in drafted) < 100


@pytest.mark.parametrize(("kind", "most"), [("medusa", 3), ("dflash", 3), ("eagle", None)])
def test_a_limit_on_candidates_is_not_hidden(kind: str, most: int | None) -> None:
    chosen = settings(kind, gamma=6)
    assert chosen.fixed_length == (most is None)
    drafted = [entry.num_drafted for entry in play(head_pair(kind), chosen, SHORT)[:-2]]
    assert max(drafted) == (most or 6)


def test_a_drafter_needs_its_head() -> None:
    pair = head_pair("medusa")
    with pytest.raises(PairError, match="no EAGLE head"):
        speculate(pair, SHORT, settings("eagle"))


# -- the distribution of sampled texts


@pytest.fixture
def reduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """A target of 7 tokens with an EAGLE-3 head that can propose 4 of them."""
    monkeypatch.setattr(tiny_heads, "VOCABULARY", SMALL)
    target = tiny_model("llama", vocabulary=SMALL, num_hidden_layers=LAYERS, sigma=0.2)
    folder = write_eagle3(tmp_path / "head", draft_vocabulary=4)
    return with_head(pair_of(target, None, step="lean"), folder)


def test_sampled_texts_have_the_targets_distribution(reduced: Pair) -> None:
    head = reduced.head
    assert head is not None
    assert head.proposable is not None
    assert len(head.proposable) == 4
    assert p_value(first_tokens(reduced, TEXTS), exact(reduced)) > ENOUGH


@pytest.mark.thorough
def test_the_test_finds_a_head_that_reports_wrong_probabilities(
    reduced: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_wrong_probabilities(monkeypatch)
    assert p_value(first_tokens(reduced, TEXTS), exact(reduced)) < ENOUGH


def test_tokens_outside_the_vocabulary_are_marked(reduced: Pair) -> None:
    head = reduced.head
    assert head is not None
    assert head.proposable is not None
    inside = set(head.proposable.tolist())
    rounds = play(reduced, settings("eagle", max_new_tokens=80), (3, 1, 4))
    marked = {each.extra.token_id for each in rounds if each.extra and each.extra.outside}
    usual = {each.extra.token_id for each in rounds if each.extra and not each.extra.outside}
    assert marked == set(range(SMALL)) - inside
    assert usual <= inside
    assert {each.token_id for entry in rounds for each in entry.candidates} <= inside


@pytest.mark.parametrize("kind", WRITERS)
def test_the_costs_of_a_head_are_measured(kind: str) -> None:
    pair = head_pair(kind)
    found = measure_step_costs(pair, settings(kind), contexts=(100,), repeats=2, seconds=60.0)
    assert found is not None
    assert len(found.draft) == 2
    assert all(each[0] > 0 for each in found.draft)
    assert pair.head is not None
    whole = PassBytes(weights=sum(each.nbytes for each in pair.head.parameters), cache=0)
    assert draft_bytes(pair, settings(kind)) == (whole if kind == "eagle3" else None)


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_chains_computed_together_are_those_computed_alone(kind: str) -> None:
    pair, sampler = head_pair(kind), Sampler(RunConfig(temperature=1.0))
    assert pair.head is not None
    text = ReadText(pair, SHORT, tokens(play(pair, settings(kind), SHORT)), sampler, PLACES)
    starts = [len(SHORT), len(SHORT) + 3, len(SHORT) + 4, len(SHORT) + 17]
    found = acceptance_along(pair.head, text, sampler, 4, starts)
    alone = _one_by_one(pair.head, text, 4, starts)
    rows = torch.tensor(starts)
    expected = [
        torch.minimum(text.probs[rows + place], sampler.probs(logits)).sum(-1)
        for place, logits in enumerate(alone)
    ]
    np.testing.assert_allclose(found, torch.stack(expected, 1).numpy(), atol=1e-5)
    assert found.shape == (4, 4)
