"""Two sliders that choose the simulated sizes (in code: bodies) of the shown pair's models.

A simulated size makes a model larger and slower without changing its output. Below each slider is
the time of a step at the chosen size: measured in one of the tab's runs, else estimated.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from specviz.access.roles import Action
from specviz.errors import ConfigError
from specviz.figures.body_words import (
    body_title,
    not_offered_words,
    offer_words,
    step_words,
)
from specviz.record.bodies import NO_BODY, ModelShape
from specviz.record.body_costs import BodyCost, BodyRoom, body_choices, body_cost
from specviz.record.pairs import PairSpec
from specviz.ui.session.body_rooms import body_room, forget_room, found_room
from specviz.ui.session.measured_steps import measured_steps
from specviz.ui.session.person import may
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.widgets.pair_boxes import (
    DRAFT_BODY,
    TARGET_BODY,
    bodies_were_chosen,
    body_box,
    link_bodies,
    set_bodies,
    shown_pair,
)
from specviz.ui.widgets.pair_panel import use_pair
from specviz.ui.widgets.plain_text import as_text, show_error
from specviz.worker.parent.client import PairStatus, Room, Worker

BODY_LABELS = {TARGET_BODY: "Simulate a larger target", DRAFT_BODY: "Simulate a larger draft"}
_OFFERED = "offered_target_body"  # the slider's key while the default body is offered
_TICK = 0.25  # seconds
_HELP = (
    "A simulated size makes each step cost as much as a step of a larger model. The output stays "
    "the same."
)


def show_body_boxes(
    worker: Worker, status: PairStatus, offer: PairSpec | None = None, *, loading: bool = False
) -> None:
    """Draw the sliders, or the reason why no slider is available yet.

    Args:
        offer: The pair with the target at its default simulated size, if the next run may use this
            pair; else None.
        loading: Whether ``offer`` is still being loaded.
    """
    spec = shown_pair()
    if spec is None or not may(Action.LOAD):
        return
    request = body_room(worker, status, spec)
    room = found_room(request)
    with st.container(key="bodies", gap="small"):
        if room is not None:
            _show_sliders(worker, spec, room, offer, loading=loading)
        elif request is None or request.error is not None:
            _show_no_sliders(spec, request)
        else:
            _wait(request)
        if spec.has_bodies:
            _show_off_button("Turn simulation off", worker, spec)


def offered(shape: ModelShape | None, room: BodyRoom | None, chosen: str) -> list[str]:
    """Return a slider's simulated sizes: ``NO_BODY``, sizes that fit into memory, and ``chosen``.

    They are in ascending order. The chosen size is included even if it does not fit.
    """
    if shape is None or room is None:
        return list(dict.fromkeys([NO_BODY, chosen]))
    sizes = {body: cost.parameters for body, cost in body_choices(shape, room) if _fits(cost, room)}
    if chosen != NO_BODY:
        cost = _cost(chosen, shape, room)
        sizes[chosen] = cost.parameters if cost else 0
    return [NO_BODY, *sorted(sizes, key=lambda body: sizes[body])]


def _fits(cost: BodyCost, room: BodyRoom) -> bool:
    return cost.fits(room) is not False


def _cost(body: str, shape: ModelShape, room: BodyRoom) -> BodyCost | None:
    """Return the cost of a simulated size; None if the model is already larger."""
    try:
        return body_cost(body, shape, room)
    except ConfigError:
        return None


def size_title(body: str, shape: ModelShape | None, room: BodyRoom | None) -> str:
    """Return a simulated size as a control shows it, with the parameter count if known."""
    return body_title(body, _parameters(body, shape, room))


def _parameters(body: str, shape: ModelShape | None, room: BodyRoom | None) -> int | None:
    """Return the parameter count of the enlarged model; None at the real size or if unknown."""
    cost = None if shape is None or room is None or body == NO_BODY else _cost(body, shape, room)
    return cost and cost.parameters


def _show_off_button(label: str, worker: Worker, spec: PairSpec) -> None:
    st.button(
        label, key="without_body", type="tertiary", on_click=_remove_bodies, args=(worker, spec)
    )


def _show_sliders(
    worker: Worker, spec: PairSpec, room: BodyRoom, offer: PairSpec | None, *, loading: bool
) -> None:
    if offer is None:
        target = _show_slider(
            TARGET_BODY, body_box(TARGET_BODY), spec.target_body, room.target, room
        )
    else:
        target = spec.target_body
        st.session_state[_OFFERED] = offer.target_body
        _show_slider(TARGET_BODY, _OFFERED, offer.target_body, room.target, room)
        st.caption(offer_words(loading=loading))
        _show_off_button("Use the real size", worker, spec)
    draft = spec.draft_body
    if spec.has_draft:
        draft = _show_slider(DRAFT_BODY, body_box(DRAFT_BODY), draft, room.draft, room)
    link_bodies(target, draft)


def _choose_other_than_offered() -> None:
    set_bodies(st.session_state[_OFFERED], NO_BODY)


def _show_slider(role: str, key: str, chosen: str, shape: ModelShape | None, room: BodyRoom) -> str:
    """Draw a model's slider, whose widget key is ``key``, and return the chosen simulated size."""
    label = BODY_LABELS[role]
    if shape is None:
        st.caption(f"{label}: only for models with the Llama architecture.")
        return chosen
    bodies = offered(shape, room, chosen)
    body = st.select_slider(
        label, bodies, key=key,
        on_change=_choose_other_than_offered if key == _OFFERED else bodies_were_chosen,
        format_func=lambda each: size_title(each, shape, room), help=_help(bodies, shape, room),
    )  # fmt: skip
    cost = _cost(body, shape, room)
    text = "The model is already larger than the chosen size."
    if cost is not None:
        measured = measured_steps(room).get((role.removesuffix("_body"), body))
        text = step_words(body, cost, room, measured)
    show = st.warning if cost is None or not _fits(cost, room) else st.caption
    show(as_text(text))
    return body


def _help(bodies: Sequence[str], shape: ModelShape, room: BodyRoom) -> str:
    left_out = [each for each in body_choices(shape, room) if each[0] not in bodies]
    return f"{_HELP} {not_offered_words(left_out, room)}".strip()


def _show_no_sliders(spec: PairSpec, request: Room | None) -> None:
    if request is not None and request.error is not None:
        show_error(request.error)
        forget_room(spec)
    else:
        st.caption("Load the pair to choose simulated sizes for its models.")


def _wait(request: Room) -> None:
    """Show a caption until the machine's resources are known; then redraw the page."""
    redraw_while_busy(
        request.done, lambda: request.done, lambda done: not done,
        lambda _: st.caption(
            "Measuring the memory bandwidth to find which simulated sizes run on this machine…"
        ),
        seconds=_TICK,
    )  # fmt: skip


def _remove_bodies(worker: Worker, spec: PairSpec) -> None:
    """Select the pair at its real size, and load it if necessary."""
    set_bodies(NO_BODY, NO_BODY)
    use_pair(spec.without_bodies)
    worker.prepare(spec.without_bodies)
