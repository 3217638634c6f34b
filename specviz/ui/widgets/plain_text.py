"""Foreign text on a page: shown as it is written, never obeyed.

Streamlit reads nearly all text that it draws as Markdown: the name of a folder could load a
picture, the title of a run could be a link. So all text that is neither written in this program's
code nor a number passes through ``as_text``: names, errors, kinds, links, words of files and of
models. A test checks every call that draws.
"""

from __future__ import annotations

import re

import streamlit as st

from specviz.record.visible import visible

_SIGNS = re.compile(r"([\\`*_{}\[\]<>()#!|$~&^=]|:(?=\S))")
_HEAD = re.compile(r"^(\d+(?=[.)](?:\s|$))|(?=[-+]))")  # would begin a list
# Emoji and icons by name, addresses and arrows are recognised only after Markdown's escapes are
# resolved. A character without width breaks them up.
_JOINER = "\u2060"
_LATE = re.compile(
    r"""(?: :(?=[\w+-][\w+/.-]*:) | :(?=//) | :(?=material/)
          | www(?=\.) | (?<=[\w.+-])@(?=[\w-])
          | (?<!\S)[<>~-](?=(?:->|[-=>])(?!\S)) )""",
    re.VERBOSE | re.IGNORECASE,
)


def as_text(foreign: object) -> str:
    """One line of Markdown that is drawn as the text itself, invisible characters as codes."""
    line = "".join(map(visible, " ".join(str(foreign).split())))
    apart = _LATE.sub(lambda found: found[0] + _JOINER, line)
    return _HEAD.sub(r"\1\\", _SIGNS.sub(r"\\\1", apart))


def show_error(error: Exception) -> None:
    """What went wrong and what to do about it."""
    st.error(as_text(error))
