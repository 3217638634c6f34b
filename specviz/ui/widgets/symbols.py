"""Symbols in sentences: the first use of a symbol has a card with its name and its meaning.

The card opens on hover and on focus, so it also works with the keyboard and on touch screens;
``assets/shell.css`` draws it. A sentence with cards is Markdown with HTML, so foreign text must be
escaped.
"""

from __future__ import annotations

import html
import re

import streamlit as st

from specviz.figures.symbols import SYMBOLS, Symbol

_BY_SIGN = {each.sign: each for each in SYMBOLS.values()}
# A formula or code, which stays unchanged, or a symbol that is not part of a word.
_SIGN = rf"(?<![\w'’.])[{''.join(_BY_SIGN)}](?![\w'’(])"
_VERBATIM_OR_SIGN = re.compile(rf"```[\s\S]*?```|\$[^$]+\$|`[^`]+`|{_SIGN}")


def show_sentence(text: str) -> None:
    """Draw a sentence of Markdown in which the first use of each symbol has a card."""
    st.markdown(with_cards(text), unsafe_allow_html=True)


def show_symbols(*names: str) -> None:
    """Draw a line of symbols with their names; each symbol has a card in this line."""
    named = (f"{SYMBOLS[each].sign} {SYMBOLS[each].name}" for each in names)
    line = " · ".join(each.replace(" ", "\u00a0") for each in named)  # no line break within a name
    st.caption(with_cards(line), unsafe_allow_html=True)


def with_cards(text: str) -> str:
    """Return the Markdown with a card for each symbol's first use outside of formulas and code."""
    for start, symbol in reversed(_first_uses(text)):
        text = text[:start] + _card(symbol) + text[start + 1 :]
    return text


def _first_uses(text: str) -> list[tuple[int, Symbol]]:
    """Return the position of each symbol's first use in the text, together with the symbol."""
    found: dict[str, int] = {}
    for use in _VERBATIM_OR_SIGN.finditer(text):
        if use[0] in _BY_SIGN:
            found.setdefault(use[0], use.start())
    return [(start, _BY_SIGN[sign]) for sign, start in found.items()]


def _card(symbol: Symbol) -> str:
    chapter, _, heading = symbol.chapter.partition("#")
    name, meaning = html.escape(symbol.name), html.escape(symbol.sentence)
    return (
        f'<span class="symbol" tabindex="0" role="group" '
        f'aria-label="{symbol.sign}, {name}">{symbol.sign}'
        f'<span class="symbol-card" role="tooltip"><strong>{symbol.sign}, {name}</strong> '
        f'{meaning} <a href="docs?chapter={chapter}#{heading}">More</a></span></span>'
    )
