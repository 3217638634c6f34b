"""Show the chapters under ``assets/docs`` on a page, and link each page to its chapter.

A chapter is a Markdown file that also renders in the repository. This module rewrites the links
between chapters and draws the pictures. To add a chapter, add a file and an entry to ``CHAPTERS``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import streamlit as st

from specviz import ASSETS
from specviz.ui.docs.limits_in_force import show_limits_in_force
from specviz.ui.docs.open_sessions import show_open_sessions
from specviz.ui.session.tabs import OPEN_PAGE
from specviz.ui.widgets.symbols import show_sentence

FOLDER = ASSETS / "docs"
CHAPTERS = (
    "watch", "learn", "teaching", "compare", "tune", "train", "lossless", "servers", "load", "runs",
    "theory", "quality",
    "command_line", "methods", "heads", "figures", "performance", "cluster", "sweeps",
    "embedded_pair", "deploy", "sharing", "access", "limits", "contributing",
)  # fmt: skip
_BEGINNINGS = {"limits": show_limits_in_force, "access": show_open_sessions}
_THEORY = "theory"  # for pages without a chapter of their own
_PARAMETER, _BOX, _LINKED = "chapter", "chapter_box", "chapter of the link"
_LINK = re.compile(r"\]\((\w+)\.md(#[\w-]+)?\)")
_PICTURE = re.compile(r"!\[(.*)\]\((.*)\)")


def chapter_link(named: str = "") -> str:
    """Return a Markdown link to the chapter ``named``, by default the chapter of the open page.

    The link is relative, so that it also works behind a path prefix.
    """
    page = named or st.session_state.get(OPEN_PAGE) or CHAPTERS[0]
    chapter = next((each for each in CHAPTERS if each == page), _THEORY)
    return f"[Guide](docs?chapter={chapter})"


def show_chapters() -> None:
    """Draw the list of chapters and the chosen chapter, whose name is in the link."""
    linked = st.query_params.get(_PARAMETER)
    if linked != st.session_state.get(_LINKED):
        st.session_state[_BOX] = linked if linked in CHAPTERS else CHAPTERS[0]
    with st.sidebar:
        chosen = st.selectbox("Chapter", CHAPTERS, format_func=title_of, key=_BOX)
    st.session_state[_LINKED] = st.query_params[_PARAMETER] = chosen
    with st.container(key="chapter_text", width=820):
        for part in parts_of(chosen):
            if isinstance(part, str):
                _show_text(part, chosen)
            else:
                st.image(*part)


def _show_text(text: str, chapter: str) -> None:
    if chapter in _BEGINNINGS and text.startswith("# "):
        title, _, text = text.partition("\n")
        show_sentence(title)
        _BEGINNINGS[chapter]()
    show_sentence(text)


def parts_of(chapter: str) -> Iterator[str | tuple[Path, str]]:
    """Yield the parts of a chapter in order: texts, and pictures with their captions."""
    text = _LINK.sub(r"](docs?chapter=\1\2)", _source(chapter))
    pieces = _PICTURE.split(text)
    yield pieces[0]
    for caption, place, after in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        yield FOLDER / place, caption
        yield after


def title_of(chapter: str) -> str:
    return _source(chapter).partition("\n")[0].removeprefix("# ")


@cache
def _source(chapter: str) -> str:
    return (FOLDER / f"{chapter}.md").read_text(encoding="utf-8")
