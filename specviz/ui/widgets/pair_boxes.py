"""The controls that name a pair or a target alone. Every page uses the same controls.

A model that is named in a control or a link is downloaded and loaded only after a click. The list
of this machine's models reads only headers; see ``machine_boxes``.
The values are read from the session state and the link, so that a page knows the pair before it
draws the controls.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.access.roles import Action
from specviz.errors import ConfigError
from specviz.installation import INSTALL_CHAT
from specviz.local_models.naming import other_target_of, with_head
from specviz.record.bodies import NO_BODY, body_name
from specviz.record.pairs import (
    CHAT_PAIR,
    DEFAULT_PAIR,
    OTHER_TARGET,
    QUANTISED,
    WEIGHTS,
    KnownPair,
    PairSpec,
    known_pairs,
    weight_words,
)
from specviz.ui.session.model_places import refusal_of
from specviz.ui.session.person import may
from specviz.ui.session.tabs import OPEN_PAGE
from specviz.ui.session.worker import given_pair, the_worker
from specviz.ui.widgets.embedded_captions import EMBEDDED_MODELS, embedded_captions
from specviz.ui.widgets.machine_boxes import (
    MACHINE_BOXES,
    chosen_models,
    forget_link,
    keep_models,
    show_machine_boxes,
)
from specviz.ui.widgets.plain_text import as_text

_LINKED = "query-params"
_KEPT, _PAGE = "pair boxes kept", "page"
_OWN = "other ids"
_NO_DRAFT = "none: prompt lookup"  # placeholder of the empty box for the draft
_EMBEDDED, _MACHINE, _HUB, _LOCAL = _SOURCES = (
    "Embedded",
    "Machine",
    "Hub",
    "Local",
)  # also values in the link
_DEVICES = ("auto", "cpu", "cuda")
_DTYPES = ("auto", "float32", "bfloat16", "float16")
PAIR_BOXES = (  # these are in the link, and so are the bodies
    "pair", "embedded", *MACHINE_BOXES, "known_pair", "target_id", "draft_id", "target_folder",
    "draft_folder", "device", "dtype", "shared_vocabulary", "other_target", "target_weights",
    "draft_weights",
)  # fmt: skip
TARGET_BODY, DRAFT_BODY = BODY_BOXES = ("target_body", "draft_body")
_CHOSEN = "bodies chosen"


def shown_pair() -> PairSpec | None:
    """Return what the controls name: a pair, or a target alone. Return None without a target.

    Only owners, who may load pairs, have such controls. For everybody else, return the loaded pair
    or, if no pair is loaded, the embedded pair.
    """
    if not may(Action.LOAD):
        return given_pair(the_worker().status())
    models = _shown_models()
    if models is None:
        return None
    draft = _body_value(DRAFT_BODY) if models.has_draft else NO_BODY
    return replace(models, target_body=_body_value(TARGET_BODY), draft_body=draft)


def _shown_models() -> PairSpec | None:
    source = _value("pair", _SOURCES)
    if source == _EMBEDDED:
        chosen = _shown_embedded()
        name = None if chosen == DEFAULT_PAIR else chosen
        weights = _shown_weights(has_draft=name != CHAT_PAIR)
        device = "cpu" if {*weights.values()} & {*QUANTISED} else "auto"  # kernels need a CPU
        return PairSpec(name=name, device=device, **weights)
    places = _shown_places(source)
    target, draft = (each.strip() for each in places)
    if not target:
        return None
    shares = bool(draft) and _shares_vocabulary(source)
    spec = replace(_options(has_draft=bool(draft)), target=target, draft=draft or None)
    spec = spec if refusal_of(spec) else with_head(spec)  # with_head opens the draft's files
    if spec.head:  # a head uses the target's tokenizer
        forced = _value("other_target").lower() == "true"
        return replace(spec, other_target=forced and bool(other_target_of(spec)))
    return replace(spec, shared_vocabulary=shares)


def _options(*, has_draft: bool = True) -> PairSpec:
    """Return a pair specification with only the device, dtype and weights of the controls."""
    device, dtype = _value("device", _DEVICES), _value("dtype", _DTYPES)
    return PairSpec(device=device, dtype=dtype, **_shown_weights(has_draft=has_draft))


def _shown_weights(*, has_draft: bool) -> dict[str, Any]:
    roles = ("target", "draft") if has_draft else ("target",)
    return {f"{role}_weights": _value(f"{role}_weights", WEIGHTS) for role in roles}


def _shown_places(source: str) -> tuple[str, str]:
    """Return the Hub id or path of the target and of the draft. An unnamed model has ""."""
    if source == _MACHINE:
        pair = chosen_models(_options())
        draft = pair.draft if pair is not None else None
        return pair.target.place if pair else "", draft.model.place if draft else ""
    if source == _LOCAL:
        return _value("target_folder"), _value("draft_folder")
    known = _known()
    chosen = known.get(_value("known_pair", (*known, _OWN)))
    return (chosen.target, chosen.draft) if chosen else (_value("target_id"), _value("draft_id"))


def _shown_embedded() -> str:
    chosen = _value("embedded", EMBEDDED_MODELS)
    return chosen if chosen in embedded_captions() else DEFAULT_PAIR


def _shares_vocabulary(source: str) -> bool:
    """Return whether the draft must propose only shared tokens (toggle Shared vocabulary)."""
    known = _compared_tokenizers(source)
    return _value("shared_vocabulary").lower() == "true" if known is None else known


def _compared_tokenizers(source: str) -> bool | None:
    """Return whether the tokenizers differ; None if they were not compared."""
    pair = chosen_models(_options()) if source == _MACHINE else None
    return pair.shares_vocabulary if pair is not None else None


def keep_pair(spec: PairSpec) -> None:
    """Store the models of a pair that is about to be loaded, so that no search changes them."""
    if _value("pair", _SOURCES) == _MACHINE:
        keep_models(spec.target, spec.draft)


def show_pair_boxes() -> None:
    """Draw the controls for the chosen source of the pair."""
    source = st.segmented_control(
        "Where the models come from", _SOURCES, default=_EMBEDDED, key=_box("pair"), bind=_LINKED,
        label_visibility="collapsed", width="stretch", required=True, on_change=clear_bodies,
    )  # fmt: skip
    if source == _EMBEDDED:
        _choose_embedded()
    elif source == _MACHINE:
        show_machine_boxes(_options(), clear_bodies)
    elif source == _HUB:
        names = [*_known(), _OWN]
        chosen = st.selectbox(
            "Well-known pairs", names, key=_box("known_pair"), bind=_LINKED, on_change=clear_bodies
        )
        if chosen == _OWN:
            _name_model("Target, Hub id", "target_id")
            _name_model("Draft, Hub id", "draft_id", _NO_DRAFT)
    elif source == _LOCAL:
        _name_model("Target, a folder or GGUF file", "target_folder")
        _name_model("Draft, a folder or GGUF file", "draft_folder", _NO_DRAFT)
    if source != _MACHINE:
        forget_link()
    if source != _EMBEDDED:
        _choose_loading(source)
    _choose_weights()
    _remember()


def _choose_embedded() -> None:
    captions = embedded_captions()
    st.radio(
        "Embedded models", list(captions), key=_box("embedded"), bind=_LINKED,
        captions=list(captions.values()), label_visibility="collapsed", on_change=clear_bodies,
    )  # fmt: skip
    if CHAT_PAIR not in captions:
        st.caption(f"`{INSTALL_CHAT}` installs a chat model, {CHAT_PAIR}.")


def _name_model(label: str, key: str, placeholder: str | None = None) -> None:
    st.text_input(
        label, key=_box(key), bind=_LINKED, on_change=clear_bodies, placeholder=placeholder
    )


def _choose_loading(source: str) -> None:
    """Draw the boxes of device and dtype, and the switch that the kind of draft may need."""
    with st.container(horizontal=True):
        st.selectbox("Device", _DEVICES, key=_box("device"), bind=_LINKED)
        st.selectbox("Data type (dtype)", _DTYPES, key=_box("dtype"), bind=_LINKED)
    shown = _shown_models()
    if shown is not None and shown.head:  # a head uses the target's tokenizer
        _choose_other_target(shown)
        return
    differs, box = _compared_tokenizers(source), _box("shared_vocabulary")
    if differs is False or not _shown_places(source)[1]:
        return
    if differs:
        st.session_state[box] = True
    st.toggle(
        "Shared vocabulary", key=box, bind=_LINKED, disabled=bool(differs),
        help="For two models with different tokenizers. The draft proposes only tokens that "
             "both models have. The draft's tokenizer encodes the text for the draft. The output "
             "still follows the target's distribution.",
    )  # fmt: skip


def _choose_other_target(spec: PairSpec) -> None:
    """Draw a switch that allows another target, if the head's files name one."""
    if named := other_target_of(spec):
        st.toggle(
            OTHER_TARGET, key=_box("other_target"), bind=_LINKED,
            help=f"The head's files name the target {as_text(named)}. Turn this on if that is the "
                 "same model under another name, or to try the head with this target.",
        )  # fmt: skip


def _choose_weights() -> None:
    """Draw a control for the type of each model's weights.

    This function writes the types into the link, because a control that is bound to the link would
    write the shown text instead of the type's name.
    """
    models = _shown_models()
    if models is None:
        return
    with st.container(horizontal=True):
        for role in ("target", "draft") if models.draft_kind else ("target",):
            key = f"{role}_weights"
            st.session_state[key] = kind = _value(key, WEIGHTS)
            _link_weights(key, kind)
            st.selectbox(
                f"Weights of the {role}", WEIGHTS, key=key, format_func=_weights_words,
                help="Quantised weights need less memory and less time per step, but change the "
                     "output a little. A note after loading shows how much it changes. With “as "
                     "stored”, the weights of a GGUF file stay quantised on a CPU where possible, "
                     "and an EAGLE head of a quantised target is quantised to Q8_0. To choose a "
                     "quantised type, use a CPU and float32.",
            )  # fmt: skip


def _link_weights(key: str, kind: str) -> None:
    if kind == "auto":
        st.query_params.pop(key, None)
    elif st.query_params.get(key) != kind:
        st.query_params[key] = kind


def _weights_words(kind: str) -> str:
    return "as stored" if kind == "auto" else weight_words(kind)


# The bodies (simulated sizes). Until the user chooses a body or "none", Watch offers a default
# body. After the choice "none" it offers no body.


def bodies_are_chosen() -> bool:
    """Return whether simulated sizes, or "none", were chosen by the user, a link or Watch."""
    return _CHOSEN in _remembered() or any(key in st.query_params for key in BODY_BOXES)


def set_bodies(target: str, draft: str) -> None:
    """Set the simulated sizes in the session and the link. Call before drawing their controls."""
    for key, body in zip(BODY_BOXES, (target, draft), strict=True):
        st.session_state[key] = _remembered()[key] = body
    bodies_were_chosen()
    link_bodies(target, draft)


def forget_bodies() -> None:
    """Mark the simulated sizes as not chosen yet. Call before drawing their controls."""
    for key in BODY_BOXES:
        st.session_state[key] = _remembered()[key] = NO_BODY
        st.query_params.pop(key, None)
    _remembered().pop(_CHOSEN, None)


def put_pair(target: str, draft: str) -> None:
    """Set the controls, before they are drawn, to two models (Hub ids or paths) at real size."""
    if all(os.path.isabs(each) or os.path.exists(each) for each in (target, draft) if each):
        values = {"pair": _LOCAL, "target_folder": target, "draft_folder": draft}
    else:
        values = {"pair": _HUB, "known_pair": _OWN, "target_id": target, "draft_id": draft}
    for key, value in values.items():
        st.session_state[key] = _remembered()[key] = value
    set_bodies(NO_BODY, NO_BODY)


def bodies_were_chosen() -> None:
    """Record that simulated sizes were chosen, so that the link contains the choice."""
    _remembered()[_CHOSEN] = "yes"


def clear_bodies() -> None:
    """Set chosen simulated sizes to ``NO_BODY``: they were chosen for the previous pair."""
    if bodies_are_chosen():
        set_bodies(NO_BODY, NO_BODY)


def body_box(key: str) -> str:
    """Give the control ``key`` the current simulated size, and return ``key``."""
    st.session_state[key] = _body_value(key)
    return key


def link_bodies(target: str, draft: str) -> None:
    """Put chosen simulated sizes into the link.

    For a target at its real size, the link states "none". If the link gave no size, Watch would
    offer a default simulated size.
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
    """Return a control's value. An undrawn control has the value of the link or the last page."""
    before: tuple[Any, ...] = (st.query_params, _remembered())
    sources = before if _just_opened() else (st.session_state, *before)
    first = options[0] if options else ""
    value = next((str(each[key]) for each in sources if each.get(key) is not None), first)
    return value if value in options or not options else first


# Streamlit drops the widgets of a page that the user leaves, so their values are stored here. In
# the first run of the new page's script, the session state still has the old widgets' values.


def _just_opened() -> bool:
    """Return whether the user just opened this page, so that its controls are not drawn yet."""
    return _remembered().get(_PAGE) != st.session_state.get(OPEN_PAGE)


def _remembered() -> dict[str, str]:
    return st.session_state.setdefault(_KEPT, {})


def _box(key: str) -> str:
    if _just_opened() and key not in st.query_params and key in _remembered():
        st.session_state[key] = _remembered()[key]
    return key


def _remember() -> None:
    boxes = {*PAIR_BOXES, *BODY_BOXES} - {*MACHINE_BOXES}  # ``machine_boxes`` stores these
    _remembered().update({key: st.session_state[key] for key in boxes if key in st.session_state})
    _remembered()[_PAGE] = st.session_state.get(OPEN_PAGE, "")
