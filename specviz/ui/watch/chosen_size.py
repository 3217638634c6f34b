"""The expected step times at the sliders' simulated sizes, before a run uses these sizes."""

from __future__ import annotations

import contextlib

from specviz.errors import ConfigError
from specviz.figures.body_words import simulated_cost
from specviz.figures.round_cost import SimulatedSteps
from specviz.record.bodies import NO_BODY, ModelShape, parameters_of
from specviz.record.body_costs import BodyCost, body_cost
from specviz.record.trace import ModelInfo, PairInfo
from specviz.ui.session.body_rooms import known_room
from specviz.ui.widgets.pair_boxes import shown_pair


def chosen_steps(pair: PairInfo) -> SimulatedSteps | None:
    """Return the expected step times at the sliders' sizes; None if ``pair`` has these sizes.

    None also if the sliders are for other models, or if a size is turned off: the expected time of
    a small model, which fits into the processor's caches, would be wrong.
    """
    spec = shown_pair()
    room = known_room(spec) if spec is not None else None
    if spec is None or room is None or not _is_of(pair.target, room.target):
        return None
    chosen = {"target": spec.target_body, "draft": spec.draft_body}
    models = {"target": (pair.target, room.target), "draft": (pair.draft, room.draft)}
    costs: dict[str, BodyCost] = {}
    for role, (info, shape) in models.items():
        body = chosen[role]
        if info is None or shape is None or body == (info.body.name if info.body else NO_BODY):
            continue
        if body == NO_BODY:
            return None
        with contextlib.suppress(ConfigError):  # the model is already larger
            costs[role] = body_cost(body, shape, room)
    return _steps(costs, chosen) if costs else None


def _is_of(info: ModelInfo, shape: ModelShape | None) -> bool:
    """Return whether a run's model, without its body, has this shape."""
    own = info.body.own_parameters if info.body else info.parameters
    return shape is not None and parameters_of(shape.shape, shape) == own


def _steps(costs: dict[str, BodyCost], chosen: dict[str, str]) -> SimulatedSteps:
    target, draft = costs.get("target"), costs.get("draft")
    sizes = [f"{role} at {simulated_cost(chosen[role], c.parameters)}" for role, c in costs.items()]
    return SimulatedSteps(
        target=target and target.step_seconds,
        draft=draft and draft.step_seconds,
        size=" and ".join(sizes),
    )
