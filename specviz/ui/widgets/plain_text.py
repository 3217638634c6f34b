"""Escaping of untrusted text on a page.

Streamlit renders nearly all text as Markdown: the name of a folder could load a picture, the title
of a run could be a link. So all text that is neither a literal in this program's code nor a number
passes through ``as_text``: names, errors, kinds, links, text from files and models. A test checks
every call that draws text.
"""

from __future__ import annotations

import re

import streamlit as st

from specviz.record.visible import visible

_SIGNS = re.compile(r"([\\`*_{}\[\]<>()#!|$~&^=]|:(?=\S))")
_HEAD = re.compile(r"^(\d+(?=[.)](?:\s|$))|(?=[-+]))")  # begins a list in Markdown
# Streamlit replaces URLs, arrows and the names of emoji and icons after it has resolved Markdown's
# escapes. A zero-width character inside them prevents that.
_JOINER = "\u2060"
_LATE = re.compile(
    r"""(?: :(?=[\w+-][\w+/.-]*:) | :(?=//) | :(?=material/)
          | www(?=\.) | (?<=[\w.+-])@(?=[\w-])
          | (?<!\S)[<>~-](?=(?:->|[-=>])(?!\S)) )""",
    re.VERBOSE | re.IGNORECASE,
)


def as_text(foreign: object) -> str:
    """Return one line of Markdown that shows the text as it is, except for invisible characters.

    Invisible characters are shown as codes.
    """
    line = "".join(map(visible, " ".join(str(foreign).split())))
    apart = _LATE.sub(lambda found: found[0] + _JOINER, line)
    return _HEAD.sub(r"\1\\", _SIGNS.sub(r"\\\1", apart))


def show_error(error: Exception) -> None:
    """Show an error: what is wrong and what to do."""
    st.error(as_text(error))
