"""The boxes that name a pair, the same on every page, and the pair that they name.

Naming a pair, in a box or a link, downloads nothing and opens no folder: that takes a click. The
boxes are read by their keys, so that a page knows the pair before they are drawn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.errors import ConfigError
from specviz.record.bodies import NO_BODY, body_name
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
PAIR_BOXES = (  # in the link, besides the bodies
    "pair",
    "known_pair",
    "target_id",
    "draft_id",
    "target_folder",
    "draft_folder",
    "device",
    "dtype",
    "shared_vocabulary",
)
TARGET_BODY, DRAFT_BODY = BODY_BOXES = ("target_body", "draft_body")
_CHOSEN = "bodies chosen"


def shown_pair() -> PairSpec | None:
    """The pair that the boxes name; None while one of them is empty."""
    models = _shown_models()
    if models is None:
        return None
    target, draft = _said_body(TARGET_BODY), _said_body(DRAFT_BODY)
    return replace(models, target_body=target, draft_body=draft)


def _shown_models() -> PairSpec | None:
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
        target=target,
        draft=draft,
        device=_said("device", _DEVICES),
        dtype=_said("dtype", _DTYPES),
        shared_vocabulary=_said("shared_vocabulary").lower() == "true",
    )


def show_pair_boxes() -> None:
    """Draw the boxes for the chosen source of the pair."""
    source = st.segmented_control(
        "Where the pair comes from", _SOURCES, default=_EMBEDDED, key=_box("pair"), bind=_LINKED,
        label_visibility="collapsed", width="stretch", required=True, on_change=leave_bodies,
    )  # fmt: skip
    if source == _HUB:
        names = [*_known(), _OWN]
        chosen = st.selectbox(
            "Well-known pairs", names, key=_box("known_pair"), bind=_LINKED, on_change=leave_bodies
        )
        if chosen == _OWN:
            _name_model("Target, Hub id", "target_id")
            _name_model("Draft, Hub id", "draft_id")
    elif source == _LOCAL:
        _name_model("Target folder", "target_folder")
        _name_model("Draft folder", "draft_folder")
    if source != _EMBEDDED:
        with st.container(horizontal=True):
            st.selectbox("Device", _DEVICES, key=_box("device"), bind=_LINKED)
            st.selectbox("Number type", _DTYPES, key=_box("dtype"), bind=_LINKED)
        st.toggle(
            "Shared vocabulary", key=_box("shared_vocabulary"), bind=_LINKED,
            help="For two models whose tokenizers differ. The draft proposes only the tokens that "
                 "both have, and reads the text in its own. The text keeps the target's law.",
        )  # fmt: skip
    _remember()


def _name_model(label: str, key: str) -> None:
    st.text_input(label, key=_box(key), bind=_LINKED, on_change=leave_bodies)


# The bodies. None is chosen at first, which is not the same as choosing none.


def bodies_are_chosen() -> bool:
    """Whether anybody chose a body or none: a person, a link, or the page for its beginning."""
    return _CHOSEN in _remembered() or any(key in st.query_params for key in BODY_BOXES)


def put_bodies(target: str, draft: str) -> None:
    """Choose the bodies, before their boxes are drawn."""
    for key, body in zip(BODY_BOXES, (target, draft), strict=True):
        st.session_state[key] = _remembered()[key] = body
    bodies_were_chosen()
    link_bodies(target, draft)


def bodies_were_chosen() -> None:
    """From now on the link names them."""
    _remembered()[_CHOSEN] = "yes"


def leave_bodies() -> None:
    """Another pair is as it is: a body is a choice for one pair."""
    if bodies_are_chosen():
        put_bodies(NO_BODY, NO_BODY)


def body_box(key: str) -> str:
    """The key of a box for a body, which starts with what was said."""
    st.session_state[key] = _said_body(key)
    return key


def link_bodies(target: str, draft: str) -> None:
    """A link says that there is no body too: without a word the page would choose one."""
    if not bodies_are_chosen():
        return
    st.query_params[TARGET_BODY] = target
    if draft != NO_BODY:
        st.query_params[DRAFT_BODY] = draft
    else:
        st.query_params.pop(DRAFT_BODY, None)


def _said_body(key: str) -> str:
    try:
        return body_name(_said(key) or NO_BODY)
    except ConfigError:  # a link may say anything
        return NO_BODY


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
             "device", "dtype", "shared_vocabulary", *BODY_BOXES)  # fmt: skip
    _remembered().update({key: st.session_state[key] for key in boxes if key in st.session_state})
    _remembered()[_PAGE] = st.session_state.get(OPEN_PAGE, "")
