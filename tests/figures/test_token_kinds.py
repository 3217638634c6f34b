"""The kind of a token, and the odds by kind with their intervals."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.figures.token_kinds import (
    TOKEN_KINDS,
    KindShare,
    TokenKind,
    by_token_kind,
    kind_of,
    token_kinds,
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (" cat", "word start"),
        ("\ncat", "word start"),
        ("\u00a0cat", "word start"),
        (" Été", "word start"),
        (" 猫", "word start"),
        ("ing", "continuation"),
        ("猫", "continuation"),
        ("\u0301", "continuation"),  # a combining accent
        ("\u0301.", "punctuation"),
        ("\u200d", "continuation"),  # joins two emoji
        ("\ufe0f", "continuation"),
        ("\u0e34", "continuation"),  # a combining Thai vowel
        ("", "continuation"),
        ("\ufffd", "continuation"),
        (" \ufffd", "continuation"),
        (f" {chr(0xDCC3)}", "continuation"),  # a byte outside UTF-8
        (".", "punctuation"),
        (' "', "punctuation"),
        ("'s", "punctuation"),
        ("。", "punctuation"),
        ("\n}", "punctuation"),
        (" +", "punctuation"),
        ("€5", "punctuation"),
        ("_name", "punctuation"),
        (" 😀", "punctuation"),
        ("7", "digit"),
        (" 42nd", "digit"),
        ("٣", "digit"),
        ("½", "digit"),
        ("Ⅷ", "digit"),
        ("五", "continuation"),  # a letter to Unicode
        (" ", "blank"),
        ("\n\n", "blank"),
        ("\t", "blank"),
        ("\u3000", "blank"),
        ("\u2028", "blank"),
        ("\x00", "blank"),
        ("\u3164", "blank"),
        ("\u200bcat", "continuation"),
        (" \u200bcat", "continuation"),
    ],
)
def test_kinds_within_a_text(text: str, kind: TokenKind) -> None:
    assert kind_of(text, before="x") == kind


@pytest.mark.parametrize(
    ("texts", "kinds"),
    [
        (["Once", " upon"], ["word start", "word start"]),
        (["un", "happy"], ["word start", "continuation"]),
        (["So", ".", "\n", "Then"], ["word start", "punctuation", "blank", "word start"]),
        (['"', "Hi"], ["punctuation", "continuation"]),
        ([" ", "", "é"], ["blank", "continuation", "word start"]),
        (["caf", "", "é"], ["word start", "continuation", "continuation"]),
        (["", "é"], ["continuation", "word start"]),
        (["\ufffd", "cat"], ["continuation", "continuation"]),
    ],
)
def test_a_word_starts_after_a_blank_or_nothing(texts: list[str], kinds: list[str]) -> None:
    assert list(token_kinds(texts)) == kinds


@given(texts=st.lists(st.text(st.characters(exclude_categories=()), max_size=4)))
def test_any_text_has_a_kind(texts: list[str]) -> None:
    assert set(token_kinds(texts)) <= set(TOKEN_KINDS)
    shares = by_token_kind(texts, [0.5] * len(texts))
    assert sum(share.count for share in shares) == len(texts)
    assert [share.kind for share in shares] == sorted(
        {share.kind for share in shares}, key=TOKEN_KINDS.index
    )


# Odds


def test_counts_and_means() -> None:
    texts = ["Once", " upon", ",", " a", "while", "."]
    word, rest, punctuation = by_token_kind(texts, [1.0, 0.5, 0.25, 0.75, 1.0, 0.75])
    assert word == KindShare(kind="word start", count=3, odds=0.75, low=None, high=None)
    assert (rest.kind, rest.count, rest.odds) == ("continuation", 1, 1.0)
    assert (punctuation.kind, punctuation.count, punctuation.odds) == ("punctuation", 2, 0.5)


def test_no_tokens() -> None:
    assert by_token_kind([], []) == ()


def test_the_interval_of_blocks_by_hand() -> None:
    # 25 tokens, so five blocks of five, each with two words and three full stops.
    texts = [" a", " b", ".", ".", "."] * 5
    pairs = [(0.5, 0.7), (0.1, 0.3), (0.4, 0.4), (0.6, 0.8), (0.6, 0.6)]
    odds = [odd for pair in pairs for odd in (*pair, 1.0, 1.0, 1.0)]
    words, stops = by_token_kind(texts, odds)
    # The mean is 0.5; the sums of differences by block are .2, −.6, −.2, .4 and .2.
    error = math.sqrt((0.04 + 0.36 + 0.04 + 0.16 + 0.04) * 5 / 4) / 10
    assert words.low == pytest.approx(0.5 - 2.776445 * error)
    assert words.high == pytest.approx(0.5 + 2.776445 * error)
    assert (stops.odds, stops.low, stops.high) == (1.0, None, None)


def test_no_interval_from_few_blocks() -> None:
    texts = [" a", " b", ".", ".", "."] * 4 + ["."] * 5
    words = by_token_kind(texts, [0.2, 0.9, 1.0, 1.0, 1.0] * 5)[0]
    assert (words.count, words.low) == (8, None)


def test_an_interval_is_clipped_to_0_and_1() -> None:
    words = by_token_kind([" a"] * 25, [0.0, 0.0, *[1.0] * 23])[0]
    assert words.high == 1.0
    assert words.low is not None
    assert 0.0 < words.low < words.odds


@pytest.mark.parametrize("memory", [0.0, 0.6])
def test_the_interval_covers_the_mean_of_clustered_odds(memory: float) -> None:
    """Easy and hard stretches, longer for a larger ``memory``."""
    source, trials, hits = random.Random(3), 400, 0
    for _ in range(trials):
        easy, odds, texts = True, list[float](), list[str]()
        for _ in range(250):
            if source.random() > memory:
                easy = source.random() < 0.5
            odds.append(source.uniform(0.5, 1.0) if easy else source.uniform(0.0, 0.5))
            texts.append(" a" if source.random() < 0.6 else "ing")
        words = by_token_kind(texts[1:], odds[1:])[0]
        assert words.low is not None
        assert words.high is not None
        hits += words.low <= 0.5 <= words.high
    assert hits / trials >= 0.9
