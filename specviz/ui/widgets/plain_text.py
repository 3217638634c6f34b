"""Foreign text on a page: shown as it is written, never obeyed.

Streamlit reads nearly every text that it draws as Markdown: a name of a folder could fetch a
picture, a title of a run could be a link. So whatever did not stand in this program's code, nor
is a number, passes through ``as_text`` before it is drawn: names, errors, kinds, links, words of
files and of models. A test looks at every call that draws.
"""

from __future__ import annotations

import re

import streamlit as st

from specviz.record.visible import visible

_SIGNS = re.compile(r"([\\`*_{}\[\]<>()#!|$~&^=]|:(?=\S))")
_HEAD = re.compile(r"^(\d+(?=[.)](?:\s|$))|(?=[-+]))")  # what follows would begin a list
# These are read after Markdown's own escapes are resolved: emoji and icons by name, addresses,
# and arrows. A sign of no width keeps them apart.
_JOINER = "\u2060"
_LATE = re.compile(
    r"""(?: :(?=[\w+-][\w+/.-]*:) | :(?=//) | :(?=material/)
          | www(?=\.) | (?<=[\w.+-])@(?=[\w-])
          | (?<!\S)[<>~-](?=(?:->|[-=>])(?!\S)) )""",
    re.VERBOSE | re.IGNORECASE,
)


def as_text(foreign: object) -> str:
    """One line in Markdown that reads as the text itself; what is hidden in it is shown."""
    line = "".join(map(visible, " ".join(str(foreign).split())))
    apart = _LATE.sub(lambda found: found[0] + _JOINER, line)
    return _HEAD.sub(r"\1\\", _SIGNS.sub(r"\\\1", apart))


def show_error(error: Exception) -> None:
    """What went wrong and what to do, where the caller stands."""
    st.error(as_text(error))
