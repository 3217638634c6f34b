"""The limits on the simulated sizes of a pair's models: memory, bandwidth, and model dimensions.

The limits of a pair are requested once from the worker, for all tabs. To find them, the worker
opens the pair's small files, which it may have to download first. So the limits are requested only
for an embedded pair, whose files are local, or for a pair that the user has loaded.
"""

from __future__ import annotations

import streamlit as st

from specviz.access.roles import Action
from specviz.record.body_costs import BodyRoom
from specviz.record.pairs import PairSpec
from specviz.ui.session.person import may
from specviz.worker.parent.client import PairStatus, Room, Worker


def body_room(worker: Worker, status: PairStatus, spec: PairSpec) -> Room | None:
    """Return the handle of a request that asks the worker what limits a pair's simulated sizes.

    The first call for an embedded or loaded pair sends the request, which may be pending or done
    at later calls. If no request was sent, the result is None.
    """
    pair, rooms = spec.without_bodies, _rooms()
    if not may(Action.RUN):  # the refusal would be shown to everybody
        return rooms.get(pair)
    loaded = (
        status.state == "ready" and status.spec is not None and status.spec.without_bodies == pair
    )
    if pair not in rooms and (pair.embedded or loaded):
        rooms[pair] = worker.room(pair)
    return rooms.get(pair)


def known_room(spec: PairSpec) -> BodyRoom | None:
    """Return the limits on the pair's simulated sizes if a request has found them, else None."""
    return found_room(_rooms().get(spec.without_bodies))


def forget_room(spec: PairSpec) -> None:
    """Forget the limits on a pair's simulated sizes; the next ``body_room`` requests them again."""
    _rooms().pop(spec.without_bodies, None)


def found_room(room: Room | None) -> BodyRoom | None:
    """Return the limits that the request found; None if the request is pending or failed."""
    return room.result if room is not None and room.done else None


@st.cache_resource(show_spinner=False)
def _rooms() -> dict[PairSpec, Room]:
    return {}
