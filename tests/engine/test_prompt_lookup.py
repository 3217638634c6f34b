"""Prompt lookup in the loop: it copies earlier continuations, and the text is the plain one."""

from __future__ import annotations

import pytest
import torch

from specviz.engine import Pair, decode_plainly, speculate
from specviz.engine.decoding.lookup import PromptLookupDrafter
from specviz.errors import PairError
from tests.engine.models import pair_of, tiny_model
from tests.engine.playing import OWN_STEPS, PROMPT, config, llama_pair, play, tokens


@pytest.fixture(params=OWN_STEPS)
def pair(request: pytest.FixtureRequest) -> Pair:
    return llama_pair(request.param)


LOOPING = (5, 6, 7, 8, 5, 6, 7, 9, 5, 6)


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("prompt", [LOOPING, PROMPT, (7,)])
def test_prompt_lookup_writes_the_plain_text(
    pair: Pair, gamma: int, prompt: tuple[int, ...]
) -> None:
    settings = config(temperature=0.0, gamma=gamma, drafter="prompt-lookup", max_new_tokens=120)
    assert tokens(play(pair, settings, prompt)) == tuple(decode_plainly(pair, prompt, settings))


def test_prompt_lookup_proposes_what_followed_before_and_sometimes_nothing(pair: Pair) -> None:
    settings = config(gamma=4, drafter="prompt-lookup", max_new_tokens=150)
    rounds = play(pair, settings, LOOPING)
    text: list[int] = list(LOOPING)
    for entry in rounds:
        left = len(LOOPING) + 150 - len(text)
        proposed = [candidate.token_id for candidate in entry.candidates]
        assert proposed == copied(text, min(4, left))
        assert all(candidate.draft_prob == 1.0 for candidate in entry.candidates)
        text += entry.emitted
    sizes = {entry.num_drafted for entry in rounds}
    assert 0 in sizes
    assert len(sizes) > 2
    for entry in rounds:
        if entry.num_drafted == 0:
            assert len(entry.emitted) == 1
            assert entry.extra_kind == "bonus"
            assert entry.draft_catch_up == 0


def copied(text: list[int], count: int) -> list[int]:
    """What followed the latest earlier occurrence of the longest suffix of at most three."""
    for size in (3, 2, 1):
        for start in range(len(text) - size - 1, -1, -1):
            if size < len(text) and text[start : start + size] == text[-size:]:
                return text[start + size : start + size + count]
    return []


def test_after_a_rollback_copies_from_the_current_text() -> None:
    drafter, text = PromptLookupDrafter(10, torch.device("cpu")), [*LOOPING, 7, 8, 5, 6, 7]
    drafter.prefill(text)
    for length in (*range(len(text), 0, -1), 6, len(text)):
        drafter.settle(length)
        proposal = drafter.propose(text[:length], 3, None, None)
        assert proposal.token_ids.tolist() == copied(text[:length], 3)


def test_prompt_lookup_needs_no_draft_and_the_model_drafter_does() -> None:
    lone = pair_of(tiny_model("llama"), None)
    assert len(tokens(play(lone, config(drafter="prompt-lookup")))) == 60
    with pytest.raises(PairError, match="no draft model"):
        speculate(lone, PROMPT, config())
