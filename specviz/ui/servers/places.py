"""The servers that the page may contact: address, confirmation, and the engine found there.

Nothing is sent to another machine until the user ticks a box for that machine. If an address on
this machine came from a link, nothing is sent there until the user presses a button. An API key is
sent only to addresses that are listed for this key.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import streamlit as st

from specviz.errors import SpecvizError
from specviz.record.server_run import ServerInfo
from specviz.servers.address import KeyName, checked_address, is_local, withheld_key
from specviz.servers.connection import Limits
from specviz.servers.finding import find_models, find_server
from specviz.servers.outgoing import check_outgoing
from specviz.ui.widgets.plain_text import as_text
from specviz.values import Value

_PROBED, _TYPED = "servers looked at", "addresses of one's own"
_QUICK = Limits(connect=3.0, between=5.0, total=8.0)


class Place(Value):
    """A server at an address. ``info`` is None until the server is identified, and on an error."""

    address: str
    granted: bool  # whether requests may be sent to it, even if it is another machine
    waiting: str = ""  # the address box's key, if the address is from a link and not confirmed
    info: ServerInfo | None = None
    models: tuple[str, ...] = ()
    error: SpecvizError | None = None


def choose_place(
    label: str, key: str, key_name: KeyName, *, what: str, hint: str = "", model: str | None = None
) -> Place | None:
    """Draw an address box; return the server at the address, or None if the box is empty.

    Args:
        key: Widget key of the box.
        what: The beginning of the label of the confirming checkbox, for example "Prompts go".
        model: The name of the model to use, if the server has several.
    """
    typed = st.text_input(
        label, key=key, bind="query-params", placeholder="http://127.0.0.1:8000",
        help=hint or None, on_change=_mark_typed, args=(key,),
    )  # fmt: skip
    if not typed or not typed.strip():
        return None
    own = typed in st.session_state.get(_TYPED, set())
    return place_at(typed, key, key_name, what=what, model=model, own=own)


def place_at(
    typed: str,
    key: str,
    key_name: KeyName,
    *,
    what: str,
    model: str | None = None,
    own: bool = True,
) -> Place:
    """Return the server at an address. Identify the server only if nothing is left to confirm.

    The user must confirm another machine by ticking a checkbox. The user must confirm an address on
    this machine only if a link contained it. ``own``: whether the user typed or confirmed the
    address.
    """
    try:
        address = checked_address(typed, allow_remote=True)
        check_outgoing(address)
        show_withheld_key(key_name, address)
        granted = is_granted(address, key, what)
    except SpecvizError as error:
        return Place(address="", granted=False, error=error)
    if not granted:
        return Place(address=address, granted=False)
    if is_local(address) and not own:
        return Place(address=address, granted=False, waiting=key)
    return _probed(address, key_name, model)


def model_named(name: str | None, models: Sequence[str]) -> str | None:
    """Return the model whose plain or escaped name is ``name``; None if no model has this name."""
    return next((each for each in models if name in (each, as_text(each))), None)


def probe_again() -> None:
    """Forget all identified servers, so that the page identifies them again."""
    st.session_state.pop(_PROBED, None)


def is_granted(address: str, key: str, what: str) -> bool:
    """Return whether requests may be sent to the address.

    For another machine, draw a checkbox with which the user allows this. A link cannot tick it.
    """
    if is_local(address):
        return True
    host = urlsplit(address).netloc
    return st.checkbox(
        f"{what} to {as_text(host)}, another machine", key=f"{key} granted {address}",
        persist_state="session",
    )  # fmt: skip


def show_withheld_key(name: KeyName, address: str) -> None:
    """If a key is set but not sent to this address, show the reason."""
    if withheld := withheld_key(name, address):
        st.caption(as_text(withheld))


def _mark_typed(key: str) -> None:
    """Record that the address in the box with this key was typed or confirmed by the user."""
    st.session_state.setdefault(_TYPED, set()).add(st.session_state[key])


def offer_probe(place: Place) -> None:
    """Draw the button that confirms an address from a link.

    Nothing is sent to the address until the user presses the button. The button is in the middle of
    the page, because a narrow page hides the sidebar. For another machine, `is_granted` draws a
    checkbox instead.
    """
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        st.markdown(
            f"{as_text(place.address)} is from a link. Nothing is sent there until you connect.",
            width="stretch",
        )
        st.button(
            "Connect", key=f"{place.waiting}_look_at", on_click=_mark_typed,
            args=(place.waiting,),
        )  # fmt: skip


def _probed(address: str, key_name: KeyName, model: str | None) -> Place:
    probed: dict[tuple[str, str, str | None], Place] = st.session_state.setdefault(_PROBED, {})
    key = address, key_name, model
    if key not in probed:
        with st.spinner("Connecting to the server"):
            probed[key] = _probe(address, key_name, model)
    return probed[key]


def _probe(address: str, key_name: KeyName, model: str | None) -> Place:
    try:
        models = find_models(address, allow_remote=True, key=key_name, limits=_QUICK)
        chosen = model_named(model, models) or models[0]
        info = find_server(address, model=chosen, allow_remote=True, key=key_name, limits=_QUICK)
    except SpecvizError as error:
        return Place(address=address, granted=True, error=error)
    return Place(address=address, granted=True, info=info, models=models)
