"""The servers that the page may contact: an address, its confirmation, what answers there.

Nothing is sent to another machine before the user has confirmed it here. Nothing is sent to an
address that came with a link, on this machine or another, before a press. An address gets a key
only if the key is bound to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import streamlit as st

from specviz.errors import SpecvizError
from specviz.record.server_run import ServerInfo
from specviz.servers.address import KeyName, checked_address, is_local, withheld_key
from specviz.servers.connection import Limits
from specviz.servers.finding import find_models, find_server
from specviz.ui.servers.kept_boxes import box, keep_boxes
from specviz.ui.widgets.plain_text import as_text

_LOOKS, _OWN = "servers looked at", "addresses of one's own"
_QUICK = Limits(connect=3.0, between=5.0, total=8.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server at an address; ``info`` is None as long as nothing may be sent or it fails."""

    address: str
    granted: bool  # it may be another machine, over plain http
    waiting: str = ""  # the key of its box, where it came with a link and nobody pressed yet
    info: ServerInfo | None = None
    models: tuple[str, ...] = ()
    error: SpecvizError | None = None


def choose_place(
    label: str, key: str, key_name: KeyName, *, what: str, hint: str = "", model: str | None = None
) -> Place | None:
    """Draw the box of an address and look what answers there; None while it is empty.

    ``what`` goes to it, in words. ``model``: which of several, by its name.
    """
    typed = st.text_input(
        label, key=box(key), bind="query-params", placeholder="http://127.0.0.1:8000",
        help=hint or None, on_change=_own, args=(key,),
    )  # fmt: skip
    keep_boxes(key)
    if not typed or not typed.strip():
        return None
    try:
        address = checked_address(typed, allow_remote=True)
        say_withheld_key(key_name, address)
        granted = is_granted(address, key, what)
    except SpecvizError as error:
        return Place(address="", granted=False, error=error)
    if not granted:
        return Place(address=address, granted=False)
    if is_local(address) and typed not in st.session_state.get(_OWN, set()):
        return Place(address=address, granted=False, waiting=key)
    return _looked_at(address, key_name, model)


def model_named(said: str | None, models: Sequence[str]) -> str | None:
    """The model that a box or a link names; a link has the name as the box shows it."""
    return next((each for each in models if said in (each, as_text(each))), None)


def look_again() -> None:
    """Forget what was found: the server may be another one by now."""
    st.session_state.pop(_LOOKS, None)


def is_granted(address: str, key: str, what: str) -> bool:
    """Whether it may be sent anything. The word of confirmation, which no link can give, is asked
    for anew for every other machine."""
    if is_local(address):
        return True
    host = urlsplit(address).netloc
    name = f"{key} granted {address}"
    told = st.checkbox(f"{what} to {as_text(host)}, another machine", key=box(name))
    keep_boxes(name)
    return told


def say_withheld_key(name: KeyName, address: str) -> None:
    """Say why a key that is set does not go to this address."""
    if withheld := withheld_key(name, address):
        st.caption(as_text(withheld))


def _own(key: str) -> None:
    """What stands in the box was typed there; a link fills it without this call."""
    st.session_state.setdefault(_OWN, set()).add(st.session_state[key])


def offer_look(place: Place) -> None:
    """In the middle of the page, for a narrow one hides the boxes. The word for another machine is
    a press already."""
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        st.markdown(
            f"{as_text(place.address)} came with a link: nothing is sent to it until you press.",
            width="stretch",
        )
        st.button(
            "See what answers there", key=f"{place.waiting}_look_at", on_click=_own,
            args=(place.waiting,),
        )  # fmt: skip


def _looked_at(address: str, key_name: KeyName, model: str | None) -> Place:
    looks: dict[tuple[str, str, str | None], Place] = st.session_state.setdefault(_LOOKS, {})
    wanted = address, key_name, model
    if wanted not in looks:
        with st.spinner("Looking what answers there"):
            looks[wanted] = _look(address, key_name, model)
    return looks[wanted]


def _look(address: str, key_name: KeyName, model: str | None) -> Place:
    try:
        models = find_models(address, allow_remote=True, key=key_name, limits=_QUICK)
        chosen = model_named(model, models) or models[0]
        info = find_server(address, model=chosen, allow_remote=True, key=key_name, limits=_QUICK)
    except SpecvizError as error:
        return Place(address=address, granted=True, error=error)
    return Place(address=address, granted=True, info=info, models=models)
