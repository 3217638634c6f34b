"""Characters split over tokens: whole in the text, and shown as bytes in a single token."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz import ASSETS
from specviz.record.token_text import SPECIAL_TOKENS, added_texts, alone, token_label


def split_tokens(texts: list[bytes]) -> tuple[list[str], dict[str, str]]:
    """Return the texts of tokens, and the pieces of those that are not whole characters."""
    shown = [each.decode(errors="replace") for each in texts]
    pieces = {str(i): each.hex() for i, each in enumerate(texts) if shown[i].encode() != each}
    return shown, pieces


def added(tokens: list[bytes]) -> list[str]:
    shown, pieces = split_tokens(tokens)
    return added_texts(range(len(tokens)), shown, pieces)


@given(text=st.text(max_size=20), cuts=st.sets(st.integers(0, 60)))
def test_the_text_is_whole_for_any_split(text: str, cuts: set[int]) -> None:
    spelt = text.encode("utf-8", errors="replace")
    ends = sorted({0, len(spelt), *(cut for cut in cuts if cut < len(spelt))})
    tokens = [spelt[start:end] for start, end in pairwise(ends)]
    assert "".join(added(tokens)) == spelt.decode()


def test_a_split_character_is_shown_at_its_last_token() -> None:
    first, second, third, fourth = (bytes([byte]) for byte in "🙂".encode())
    assert added([b"a", first, second, third, fourth, b"b"]) == ["a", "", "", "", "🙂", "b"]
    assert added([b" " + first, second + third + fourth]) == [" ", "🙂"]


def test_an_incomplete_character_is_a_replacement_character() -> None:
    assert added([b"\xc3", b"", b" dog"]) == ["", "", "\ufffd dog"]
    assert added([b"\xc3", "\ufffd".encode()]) == ["", "\ufffd\ufffd"]


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        (b"\xc3", "⟨c3⟩"),
        (b"\x9f\x99", "⟨9f 99⟩"),
        (b" \xf0\x9f", " ⟨f0 9f⟩"),
        ("é".encode() + b"\xc3", "é⟨c3⟩"),
    ],
)
def test_a_single_token_shows_its_bytes(piece: bytes, shown: str) -> None:
    [text], pieces = split_tokens([piece])
    assert alone(0, text, pieces) == shown
    assert alone(1, "\ufffd", pieces) == "\ufffd"


def test_special_tokens_have_the_names_of_the_player() -> None:
    source = (ASSETS / "player" / "token_text.js").read_text(encoding="utf-8")
    named = dict(re.findall(r'\["(<.*?>)", "(.*?)"\]', source))
    assert {text.replace("\\/", "/"): name for text, name in named.items()} == SPECIAL_TOKENS
    assert token_label("<|endoftext|>") == "⟨end of text⟩"
    assert token_label(" a\n") == "·a⏎"


BROKEN = "\ufffd"


@pytest.mark.parametrize(
    ("texts", "whole", "found"),
    [
        (["a", BROKEN, BROKEN, " b"], "aü b", ["a", "", "ü", " b"]),
        (["a", BROKEN, BROKEN], "aü", ["a", "", "ü"]),
        (["a", BROKEN], "a\ufffd", ["a", BROKEN]),
        (["a", BROKEN, BROKEN], "", ["a", BROKEN, BROKEN]),
        (["x", BROKEN, BROKEN, "y"], "another text y", ["x", BROKEN, BROKEN, "y"]),
        ([BROKEN, BROKEN, "b"], "ü and b", [BROKEN, BROKEN, "b"]),
    ],
)
def test_an_older_trace_takes_characters_from_its_text(
    texts: list[str], whole: str, found: list[str]
) -> None:
    assert added_texts(range(len(texts)), texts, {}, whole) == found
