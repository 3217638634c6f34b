"""The boxes that name a pair, the same on every page, and the pair that they name.

Naming a pair, in a box or a link, downloads nothing and opens no folder: that takes a click. The
boxes are read by their keys, so that a page knows the pair before they are drawn.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from specviz.record.pairs import KnownPair, PairSpec, known_pairs

_LINKED = "query-params"
_KEPT, _PAGE = "pair boxes kept", "page"
OPEN_PAGE = "open page"  # session state: which page the shell has opened
_OWN = "other ids"
_EMBEDDED, _HUB, _LOCAL = _SOURCES = (
    "Embedded",
    "Hub",
    "Local",
)  # words that also stand in the link
_DEVICES = ("auto", "cpu", "cuda")
_DTYPES = ("auto", "float32", "bfloat16", "float16")


def shown_pair() -> PairSpec | None:
    """The pair that the boxes name; None while one of them is empty."""
    source = _said("pair", _SOURCES)
    if source == _EMBEDDED:
        return PairSpec()
    if source == _HUB:
        known = _known()
        chosen = known.get(_said("known_pair", (*known, _OWN)))
        ids = (chosen.target, chosen.draft) if chosen else (_said("target_id"), _said("draft_id"))
    else:
        ids = _said("target_folder"), _said("draft_folder")
    target, draft = (each.strip() for each in ids)
    if not (target and draft):
        return None
    return PairSpec(
        target=target, draft=draft, device=_said("device", _DEVICES), dtype=_said("dtype", _DTYPES)
    )


def show_pair_boxes() -> None:
    """Draw the boxes for the chosen source of the pair."""
    source = st.segmented_control(
        "Where the pair comes from", _SOURCES, default=_EMBEDDED, key=_box("pair"), bind=_LINKED,
        label_visibility="collapsed", width="stretch", required=True,
    )  # fmt: skip
    if source == _HUB:
        names = [*_known(), _OWN]
        chosen = st.selectbox("Well-known pairs", names, key=_box("known_pair"), bind=_LINKED)
        if chosen == _OWN:
            st.text_input("Target, Hub id", key=_box("target_id"), bind=_LINKED)
            st.text_input("Draft, Hub id", key=_box("draft_id"), bind=_LINKED)
    elif source == _LOCAL:
        st.text_input("Target folder", key=_box("target_folder"), bind=_LINKED)
        st.text_input("Draft folder", key=_box("draft_folder"), bind=_LINKED)
    if source != _EMBEDDED:
        with st.container(horizontal=True):
            st.selectbox("Device", _DEVICES, key=_box("device"), bind=_LINKED)
            st.selectbox("Number type", _DTYPES, key=_box("dtype"), bind=_LINKED)
    _remember()


def _known() -> dict[str, KnownPair]:
    return {f"{each.family} · {each.size}": each for each in known_pairs()}


def _said(key: str, options: tuple[str, ...] = ()) -> str:
    """What the box says; before it is drawn, what the link says, or the box on another page."""
    before: tuple[Any, ...] = (st.query_params, _remembered())
    places = before if _just_opened() else (st.session_state, *before)
    first = options[0] if options else ""
    said = next((str(each[key]) for each in places if each.get(key) is not None), first)
    return said if said in options or not options else first


# Streamlit forgets the widgets of a page that is left, so their values are remembered here. In the
# first script of the new page the session still holds the old widgets' values.


def _just_opened() -> bool:
    """Whether this page was just opened and its boxes are not drawn yet."""
    return _remembered().get(_PAGE) != st.session_state.get(OPEN_PAGE)


def _remembered() -> dict[str, str]:
    return st.session_state.setdefault(_KEPT, {})


def _box(key: str) -> str:
    if _just_opened() and key not in st.query_params and key in _remembered():
        st.session_state[key] = _remembered()[key]
    return key


def _remember() -> None:
    boxes = ("pair", "known_pair", "target_id", "draft_id", "target_folder", "draft_folder",
             "device", "dtype")  # fmt: skip
    _remembered().update({key: st.session_state[key] for key in boxes if key in st.session_state})
    _remembered()[_PAGE] = st.session_state.get(OPEN_PAGE, "")
