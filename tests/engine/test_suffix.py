"""Suffix lookup: proposals against a brute-force search, and rounds in the loop."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from statistics import median

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specviz.engine import Pair, decode_plainly, speculate
from specviz.engine.decoding.drafting import Drafter
from specviz.engine.decoding.suffix import SuffixDrafter
from specviz.engine.loading.loading import load_pair
from specviz.engine.model import suffix_automaton
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.suffix_automaton import LONGEST, SuffixAutomaton
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.trace import Round
from tests.engine.models import noisy_copy, pair_of, tiny_model
from tests.engine.playing import PROMPT, config, llama_pair, play, timeless, tokens

LOOPING = (5, 6, 7, 8, 5, 6, 7, 9, 5, 6)
HOST = torch.device("cpu")
TEXT = st.lists(st.integers(0, 2), max_size=24)


def drafter(*texts: Sequence[int], vocabulary: int = 512) -> SuffixDrafter:
    return SuffixDrafter(vocabulary, HOST, SuffixAutomaton(texts))


def proposed(by: Drafter, history: Sequence[int], count: int) -> list[int]:
    return by.propose(history, count, None, None).token_ids.tolist()  # type: ignore[arg-type]


def found_by_search(
    texts: Sequence[Sequence[int]], history: list[int], count: int, longest: int = LONGEST
) -> list[int]:
    """Search every position of every text for every length; the history's come last."""
    copied: list[int] = []
    while len(copied) < count:
        read = history + copied
        for size in range(min(len(read), longest), 2 * len(copied), -1):
            places = [
                (number, end, text[end])
                for number, text in enumerate([*texts, history])
                for end in range(size, len(text))
                if list(text[end - size : end]) == read[-size:]
            ]
            if places:
                break
        else:
            return copied
        following = [token for _, _, token in places]
        latest = {token: (number, end) for number, end, token in places}
        copied.append(max(latest, key=lambda each: (following.count(each), latest[each])))
    return copied


@given(st.lists(TEXT, max_size=4), st.lists(st.integers(0, 2), min_size=1, max_size=40), st.data())
def test_proposals_match_a_brute_force_search(
    texts: list[list[int]], text: list[int], data: st.DataObject
) -> None:
    """While the text grows, and after it went back."""
    by = drafter(*texts, vocabulary=3)
    by.prefill(text[:1])
    ends = data.draw(st.lists(st.integers(1, len(text)), min_size=1, max_size=8))
    for end in ends:
        assert proposed(by, text[:end], 6) == found_by_search(texts, text[:end], 6)


@given(st.lists(TEXT, max_size=3), st.lists(st.integers(0, 1), max_size=40), st.integers(1, 6))
def test_matches_are_limited_in_length(
    texts: list[list[int]], text: list[int], longest: int
) -> None:
    """Counts of shorter matches still equal those of a search."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suffix_automaton, "LONGEST", longest)
        by = drafter(*texts, vocabulary=3)
        for end in range(len(text) + 1):
            found = found_by_search(texts, text[:end], 6, longest)
            assert proposed(by, text[:end], 6) == found


@given(st.lists(TEXT, max_size=3), TEXT, TEXT, st.integers(0, 24))
def test_a_text_may_change_after_going_back(
    texts: list[list[int]], first: list[int], second: list[int], kept: int
) -> None:
    by = drafter(*texts, vocabulary=3)
    proposed(by, first, 4)
    by.settle(kept)
    other = first[:kept] + second
    assert proposed(by, other, 4) == found_by_search(texts, other, 4)


@pytest.mark.parametrize(
    ("texts", "history", "copied"),
    [
        ([], [1, 2, 3], []),  # nothing repeats
        ([], [], []),
        ([], [1, 2, 9, 8, 7, 1], [2]),  # one matching token, one candidate
        ([], [1, 2, 9, 8, 7, 1, 2], [9, 8]),
        ([], [1, 2, 1, 2, 1, 3, 1], [2]),  # more often, though not the latest
        ([], [4, 1, 2, 5, 1, 3, 4, 1], [2, 5]),  # after the longer match
        ([[6, 7, 8]], [7], [8]),
        ([[1, 3], [1, 3]], [1, 2, 1], [3]),  # counted in all of them
        ([[1, 3]], [1, 2, 1], [2]),  # the own text is the latest
        ([[1, 2], [2, 3]], [0, 1], [2]),  # texts are not concatenated
        ([], [5, 6] * 6, [5, 6, 5, 6, 5, 6]),  # cyclic
    ],
)
def test_examples(texts: list[list[int]], history: list[int], copied: list[int]) -> None:
    assert proposed(drafter(*texts), history, 6) == copied
    assert found_by_search(texts, history, 6) == copied


def test_proposals_are_one_hots() -> None:
    proposal = drafter(vocabulary=16).propose([1, 2, 3, 1, 2], 4, None, None)
    assert proposal.token_ids.tolist() == [3, 1]
    assert torch.equal(proposal.probs, torch.eye(16)[[3, 1]])
    assert (proposal.logits, proposal.catch_up, proposal.parents) == (None, 0, None)


def test_shared_texts_are_not_modified() -> None:
    shared = SuffixAutomaton([[1, 2, 3, 4]])
    one, other = (SuffixDrafter(16, HOST, shared) for _ in range(2))
    assert proposed(one, [1, 9, 1, 9, 1], 2) == [9, 1]
    assert proposed(other, [9, 1], 2) == [2]


@cache
def looping_pair() -> Pair:
    """Its greedy text soon cycles through seven tokens, so much of it is copied."""
    target = tiny_model("llama", sigma=0.05, seed=3)
    return pair_of(target, noisy_copy(target, 0.05), step="lean")


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("prompt", [LOOPING, PROMPT, (7,)])
def test_suffix_lookup_emits_the_plain_text(prompt: tuple[int, ...], gamma: int) -> None:
    pair = llama_pair("lean")
    settings = config(temperature=0.0, gamma=gamma, drafter="suffix", max_new_tokens=120)
    rounds = play(pair, settings, prompt)
    assert tokens(rounds) == tuple(decode_plainly(pair, prompt, settings))
    assert any(entry.num_accepted for entry in rounds)


def test_suffix_lookup_matches_generate() -> None:
    settings = config(temperature=0.0, gamma=8, drafter="suffix", max_new_tokens=90)
    rounds = play(looping_pair(), settings, LOOPING)
    model = tiny_model("llama", sigma=0.05, seed=3)
    written = model.generate(  # pyright: ignore[reportCallIssue]
        torch.tensor([LOOPING]), do_sample=False, min_new_tokens=90, max_new_tokens=90
    )
    assert tokens(rounds) == tuple(written[0, len(LOOPING) :].tolist())
    assert sum(entry.num_accepted for entry in rounds) > 45


def test_the_rounds_of_a_sampled_text_are_those_of_a_search() -> None:
    settings = config(gamma=5, drafter="suffix", max_new_tokens=120, temperature=0.7)
    text: list[int] = list(LOOPING)
    rounds = play(looping_pair(), settings, LOOPING)
    for entry in rounds:
        left = len(LOOPING) + 120 - len(text)
        drafted = [candidate.token_id for candidate in entry.candidates]
        assert drafted == found_by_search([], text, min(5, left))
        assert all(candidate.draft_prob == 1.0 for candidate in entry.candidates)
        text += entry.emitted
    sizes = {entry.num_drafted for entry in rounds}
    assert 0 in sizes
    assert len(sizes) > 2


def test_after_going_back_the_rounds_are_the_same_again() -> None:
    settings = config(gamma=5, drafter="suffix", temperature=0.0, record=False, max_new_tokens=100)
    run = speculate(looping_pair(), LOOPING, settings)
    rounds = list(run)
    assert sum(entry.num_accepted for entry in rounds) > 50
    assert any(entry.extra_kind == "recovered" for entry in rounds)
    chance = random.Random(1)
    for first in [0, len(rounds) - 1, *chance.sample(range(len(rounds)), 5)]:
        run.go_back(rounds[first])
        assert timeless(list(run)) == timeless(rounds[first:])


@pytest.mark.parametrize("kind", [pytest.param("copying", marks=pytest.mark.thorough), "list"])
def test_suffix_lookup_accepts_more_than_prompt_lookup(kind: str) -> None:
    pair = load_pair(PairSpec(name="tinystories", threads=1))
    prompts = [
        tuple(encode_prompt(pair, preset.text, chat=False))
        for preset in read_presets()
        if preset.kind == kind
    ]
    suffix, lookup = (
        [entry for prompt in prompts for entry in copied_greedily(pair, prompt, name)]
        for name in ("suffix", "prompt-lookup")
    )
    assert sum(entry.num_accepted for entry in suffix) > 20
    print(
        f"{kind}: {yield_of(suffix):.3f} of a drafted token, prompt lookup {yield_of(lookup):.3f}"
    )
    assert yield_of(suffix) > yield_of(lookup)


def copied_greedily(pair: Pair, prompt: tuple[int, ...], name: str) -> list[Round]:
    settings = config(
        temperature=0.0, gamma=5, drafter=name, record=False, max_new_tokens=60, ignore_eos=False
    )
    return play(pair, settings, prompt)


def yield_of(rounds: list[Round]) -> float:
    """Accepted tokens per drafted one."""
    return sum(entry.num_accepted for entry in rounds) / sum(entry.num_drafted for entry in rounds)


def test_a_repeated_token_is_looked_up_as_fast() -> None:
    """A look-up takes below 0.2 ms on an idle core; the test allows twice that."""
    by, seconds = drafter(), list[float]()
    text = [7] * 4000
    for end in (2000, *range(2001, 2100), 3900, *range(3901, 4000)):
        began = time.thread_time()
        proposal = by.propose(text[:end], 64, None, None)  # type: ignore[arg-type]
        seconds.append(time.thread_time() - began)
        assert proposal.token_ids.tolist() == [7] * 64
    # A busy machine slows most look-ups, but not all of them.
    early, late = (sorted(some)[len(some) // 10] for some in (seconds[1:100], seconds[101:]))
    print(f"{early * 1e6:.0f} µs at 2,000 tokens, {late * 1e6:.0f} µs at 4,000")
    assert late < 0.4e-3


def test_a_look_up_in_a_thousand_texts_is_fast() -> None:
    """Below 0.2 ms on an idle core; the test allows twice that."""
    vocabulary, chance = 4096, random.Random(0)
    steep = list(accumulate(1 / rank for rank in range(1, vocabulary + 1)))  # like words
    texts = [chance.choices(range(vocabulary), cum_weights=steep, k=128) for _ in range(1000)]
    by = SuffixDrafter(vocabulary, HOST, SuffixAutomaton(texts))
    text = [token for part in chance.sample(texts, 4) for token in part[:64]]  # much is copied
    by.prefill(text[:10])
    seconds, sizes = list[float](), set[int]()
    for end in range(12, len(text), 2):
        history = text[:end]
        began = time.thread_time()
        proposal = by.propose(history, 8, None, None)
        seconds.append(time.thread_time() - began)
        sizes.add(len(proposal.token_ids))
    assert 8 in sizes
    print(f"{median(seconds) * 1e6:.0f} µs in the median, {max(seconds) * 1e6:.0f} µs at most")
    assert median(seconds) < 0.4e-3
