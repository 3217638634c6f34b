"""Untrusted text is rendered literally in Markdown."""

from __future__ import annotations

import re

import pytest

from specviz.ui.widgets.plain_text import as_text

# Named, so that a failure shows which mark-up was rendered. A browser test draws each one, too.
HOSTILE = {
    "picture": "![x](http://127.0.0.1:9/pic.png)",
    "link": "[x](http://127.0.0.1:9/) and [y][1]",
    "code": "`code` and ``more``",
    "emphasis": "*a* **b** _c_ __d__ ~~e~~ ==f==",
    "formula": "$x^2$ and $$y$$",
    "tags": "<b>b</b> <img src=x> <!-- c --> &amp; &#33;",
    "directives": ":red[a] :small[b] :blue-badge[c] ::d ::::e",
    "icons": ":material/home: :streamlit: :smile: :+1: a:b:c",
    "addresses": "http://127.0.0.1:9/ https://a.example www.a.example me@a.example",
    "arrows": "a -> b <- c <-> d -- e >= f <= g ~= h",
    "heading": "# a",
    "quote": "> a",
    "list": "- a",
    "numbers": "12. a",
    "plus": "+ a",
    "rule": "---",
    "table": "| a | b |",
    "footnote": "[^1]",
    "backslash": "C:\\folder\\*",
}


def shown(markdown: str) -> str:
    """Resolve only the escapes of Markdown."""
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", markdown).replace("\u2060", "")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_escaping_keeps_the_text(text: str) -> None:
    assert shown(as_text(text)) == text


def test_plain_text_is_unchanged() -> None:
    words = "The folder a/b-c.d does not exist. Give: a model folder, or a Hub id; 95 % of 1.5"
    assert as_text(words) == words


def test_invisible_characters_are_shown_on_one_line() -> None:
    assert (
        shown(as_text("a\n\n# b\u202ec\x1b\u200b\u2028 d\u2060"))
        == r"a # b\u202ec\x1b\u200b d\u2060"
    )


def test_an_error_is_shown_as_its_text() -> None:
    assert as_text(ValueError("no *such* thing")) == r"no \*such\* thing"
