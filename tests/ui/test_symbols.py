"""Symbols within sentences: which uses get a card, and what the card contains."""

from __future__ import annotations

import pytest

from specviz.figures.symbols import SYMBOLS
from specviz.ui.widgets.symbols import with_cards

CARD = 'class="symbol"'


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("With α 0.7, c 0.05 and γ = 5.", 3),
        ("γ, then γ again", 1),
        ("**no γ pays**", 1),
        ("a cycle of vectors, v1 and c4", 0),
        (r"at most $\\gamma c + v$", 0),
        ("set `--c` or `v`", 0),
        ("the model's v", 1),
        ("v(n) and it’s c’s", 0),
    ],
)
def test_the_first_use_of_each_symbol_has_a_card(text: str, cards: int) -> None:
    assert with_cards(text).count(CARD) == cards


@pytest.mark.parametrize("name", SYMBOLS)
def test_a_card_has_name_meaning_and_chapter(name: str) -> None:
    symbol = SYMBOLS[name]
    card = with_cards(symbol.sign).replace("&#x27;", "'")
    assert all(part in card for part in (symbol.name, symbol.sentence, symbol.chapter))
    assert 'tabindex="0"' in card


def test_code_after_a_block_of_code_stays_code() -> None:
    text = "```\nrun --c 1\n```\n\nGive `--c 0.05 --v 1.1`."
    assert with_cards(text) == text
