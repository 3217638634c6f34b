"""What this machine has for bodies of a pair: asked of the worker once, and known to all tabs.

Asking opens the small files of a pair. Those of the embedded pair are here; another pair is only
asked about once a click has loaded it.
"""

from __future__ import annotations

import streamlit as st

from specviz.record.body_costs import BodyRoom
from specviz.record.pairs import PairSpec
from specviz.worker.parent.client import PairStatus, Room, Worker


def body_room(worker: Worker, status: PairStatus, spec: PairSpec) -> Room | None:
    """The answer, which may still be to come; None for a pair that nobody has loaded yet."""
    pair, rooms = spec.as_it_is, _rooms()
    loaded = status.state == "ready" and status.spec is not None and status.spec.as_it_is == pair
    if pair not in rooms and (pair.embedded or loaded):
        rooms[pair] = worker.room(pair)
    return rooms.get(pair)


def known_room(spec: PairSpec) -> BodyRoom | None:
    """What was answered before; nothing is asked."""
    return found_room(_rooms().get(spec.as_it_is))


def forget_room(spec: PairSpec) -> None:
    """Ask again, the next time that it is of use."""
    _rooms().pop(spec.as_it_is, None)


def found_room(room: Room | None) -> BodyRoom | None:
    """What was answered; None before, and where the question failed."""
    return room.result if room is not None and room.done else None


@st.cache_resource(show_spinner=False)
def _rooms() -> dict[PairSpec, Room]:
    return {}
