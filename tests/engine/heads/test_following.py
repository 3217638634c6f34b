"""Acceptance along a text: all chains at once, one after the other, and rounds of the loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from specviz.engine import Pair, decode_plainly, speculate
from specviz.engine.decoding.sampling import Sampler
from specviz.engine.heads import following
from specviz.engine.heads.following import ReadText, acceptance_along, rounds_along
from specviz.record.run_config import RunConfig
from tests.engine.heads.test_head_runs import WRITERS, head_pair

PROMPT = [3, 7, 11, 5]
LENGTH, GAMMA = 24, 3
EAGLES = sorted(kind for kind in WRITERS if kind.startswith("eagle"))


def read(pair: Pair, temperature: float = 0.0, more: int = GAMMA) -> ReadText:
    config = RunConfig(
        temperature=temperature, max_new_tokens=LENGTH + more, record=False, ignore_eos=True
    )
    assert pair.head is not None
    text = list(decode_plainly(pair, PROMPT, config))
    return ReadText(pair, PROMPT, text, Sampler(RunConfig()), pair.head.states.places)


@pytest.mark.parametrize("kind", EAGLES)
@pytest.mark.parametrize("shift", [0, 1])
def test_chains_at_once_equal_single_chains(
    kind: str, shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = head_pair(kind)
    assert pair.head is not None
    head = pair.head.with_settings(replace(pair.head.settings, shift_ids=shift))
    text, sampler, starts = read(pair), Sampler(RunConfig()), (4, 5, 9, 20)
    found = acceptance_along(head, text, sampler, 4, starts)
    monkeypatch.setattr(following, "EagleHead", torch.Tensor)  # of no head
    assert np.abs(found - acceptance_along(head, text, sampler, 4, starts)).max() < 1e-5


@pytest.mark.parametrize("kind", sorted(WRITERS))
def test_rounds_along_a_greedy_text_are_those_of_the_loop(kind: str) -> None:
    pair = head_pair(kind)
    assert pair.head is not None
    gamma = min(GAMMA, pair.head.most_candidates or GAMMA)
    text = read(pair)
    ids: list[int] = text.ids.tolist()
    first = len(PROMPT)
    found = rounds_along(pair.head, text, gamma, (first, first + LENGTH))
    config = RunConfig(
        temperature=0.0, max_new_tokens=LENGTH + GAMMA, gamma=gamma, ignore_eos=True,
        drafter=pair.head.method,
    )  # fmt: skip
    made = list(speculate(pair, ids[: first + 1], config))[: len(found)]
    assert [accepted for _, accepted in found] == [each.num_accepted for each in made]
    assert sum(accepted + 1 for _, accepted in found) >= LENGTH - 1


def test_a_limit_shortens_the_last_drafts() -> None:
    pair = head_pair("eagle3")
    assert pair.head is not None
    text, first = read(pair), len(PROMPT)
    end = first + LENGTH
    whole = rounds_along(pair.head, text, GAMMA, (first, end))
    cut = rounds_along(pair.head, text, GAMMA, (first, end), end)
    assert {drafted for drafted, _ in whole} == {GAMMA}
    assert cut[-1][0] < GAMMA
    newest = first
    for drafted, accepted in cut:
        assert drafted == min(GAMMA, end - newest - 2)  # and one token after the accepted ones
        newest += accepted + 1
    assert end - 2 <= newest < end


def test_rounds_do_not_depend_on_the_way_of_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, span = head_pair("eagle3"), (len(PROMPT), len(PROMPT) + LENGTH)
    assert pair.head is not None
    text: Any = read(pair, temperature=0.7).without_probs()
    found = rounds_along(pair.head, text, GAMMA, span)
    monkeypatch.setattr(following, "EagleHead", torch.Tensor)  # of no head
    assert rounds_along(pair.head, text, GAMMA, span) == found
