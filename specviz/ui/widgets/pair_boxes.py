"""The controls that name a pair, the same on every page.

Naming a pair, in a control or a link, downloads nothing and opens no folder: both need a click.
The values are read from the session state and the link, so that a page knows the pair before it
draws the controls.
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
OPEN_PAGE = "open page"  # key in the session state: the page that the shell has opened
_OWN = "other ids"
_EMBEDDED, _HUB, _LOCAL = _SOURCES = (
    "Embedded",
    "Hub",
    "Local",
)  # also values in the link
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
    """Return the pair that the controls name; None while the target or the draft is empty."""
    models = _shown_models()
    if models is None:
        return None
    target, draft = _body_value(TARGET_BODY), _body_value(DRAFT_BODY)
    return replace(models, target_body=target, draft_body=draft)


def _shown_models() -> PairSpec | None:
    source = _value("pair", _SOURCES)
    if source == _EMBEDDED:
        return PairSpec()
    if source == _HUB:
        known = _known()
        chosen = known.get(_value("known_pair", (*known, _OWN)))
        ids = (chosen.target, chosen.draft) if chosen else (_value("target_id"), _value("draft_id"))
    else:
        ids = _value("target_folder"), _value("draft_folder")
    target, draft = (each.strip() for each in ids)
    if not (target and draft):
        return None
    return PairSpec(
        target=target,
        draft=draft,
        device=_value("device", _DEVICES),
        dtype=_value("dtype", _DTYPES),
        shared_vocabulary=_value("shared_vocabulary").lower() == "true",
    )


def show_pair_boxes() -> None:
    """Draw the controls for the chosen source of the pair."""
    source = st.segmented_control(
        "Where the pair comes from", _SOURCES, default=_EMBEDDED, key=_box("pair"), bind=_LINKED,
        label_visibility="collapsed", width="stretch", required=True, on_change=clear_bodies,
    )  # fmt: skip
    if source == _HUB:
        names = [*_known(), _OWN]
        chosen = st.selectbox(
            "Well-known pairs", names, key=_box("known_pair"), bind=_LINKED, on_change=clear_bodies
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
            help="For two models with different tokenizers. The draft proposes only tokens that "
                 "both have, and reads the text in its own tokens. The output still follows the "
                 "target's distribution.",
        )  # fmt: skip
    _remember()


def _name_model(label: str, key: str) -> None:
    st.text_input(label, key=_box(key), bind=_LINKED, on_change=clear_bodies)


# The bodies. "Not chosen yet" differs from "no body": Watch then offers a default body.


def bodies_are_chosen() -> bool:
    """Return whether the user, a link, or a run with the default has chosen bodies or "none"."""
    return _CHOSEN in _remembered() or any(key in st.query_params for key in BODY_BOXES)


def set_bodies(target: str, draft: str) -> None:
    """Set the bodies in the session state and the link. Call before their controls are drawn."""
    for key, body in zip(BODY_BOXES, (target, draft), strict=True):
        st.session_state[key] = _remembered()[key] = body
    bodies_were_chosen()
    link_bodies(target, draft)


def forget_bodies() -> None:
    """Return to "not chosen yet". Call before the controls are drawn."""
    for key in BODY_BOXES:
        st.session_state[key] = _remembered()[key] = NO_BODY
        st.query_params.pop(key, None)
    _remembered().pop(_CHOSEN, None)


def bodies_were_chosen() -> None:
    """Record that bodies were chosen, so that the link names them."""
    _remembered()[_CHOSEN] = "yes"


def clear_bodies() -> None:
    """Reset the bodies to ``NO_BODY`` if some were chosen: another pair needs a new choice."""
    if bodies_are_chosen():
        set_bodies(NO_BODY, NO_BODY)


def body_box(key: str) -> str:
    """Set a body's control to the current value, and return the control's key."""
    st.session_state[key] = _body_value(key)
    return key


def link_bodies(target: str, draft: str) -> None:
    """Put chosen bodies into the link.

    The target's "none" is included: without it, Watch would offer a default body.
    """
    if not bodies_are_chosen():
        return
    st.query_params[TARGET_BODY] = target
    if draft != NO_BODY:
        st.query_params[DRAFT_BODY] = draft
    else:
        st.query_params.pop(DRAFT_BODY, None)


def _body_value(key: str) -> str:
    try:
        return body_name(_value(key) or NO_BODY)
    except ConfigError:  # from an invalid link
        return NO_BODY


def _known() -> dict[str, KnownPair]:
    return {f"{each.family} · {each.size}": each for each in known_pairs()}


def _value(key: str, options: tuple[str, ...] = ()) -> str:
    """Return a control's value; before it is drawn, the link's value or the previous page's."""
    before: tuple[Any, ...] = (st.query_params, _remembered())
    sources = before if _just_opened() else (st.session_state, *before)
    first = options[0] if options else ""
    value = next((str(each[key]) for each in sources if each.get(key) is not None), first)
    return value if value in options or not options else first


# Streamlit drops the widgets of a page that the user leaves, so their values are stored here. In
# the first run of the new page's script, the session state still has the old widgets' values.


def _just_opened() -> bool:
    """Return whether this page was just opened and its controls are not drawn yet."""
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
