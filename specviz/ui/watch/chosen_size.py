"""Step times of models enlarged to the sliders' simulated sizes: measured in runs, or estimated."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from specviz.errors import ConfigError
from specviz.figures.body_words import simulated_cost
from specviz.figures.round_cost import SimulatedSteps
from specviz.record.bodies import NO_BODY
from specviz.record.body_costs import BodyCost, body_cost
from specviz.record.trace import PairInfo
from specviz.ui.session.body_rooms import known_room
from specviz.ui.session.measured_steps import body_of, is_of, measured_steps
from specviz.ui.widgets.pair_boxes import shown_pair


def chosen_steps(pair: PairInfo) -> SimulatedSteps | None:
    """Return the step times that the pair would have at the sliders' simulated sizes.

    The result is None if ``pair`` already has these sizes, or if the sliders are for other models.
    It is also None if a slider is off but its model in ``pair`` is enlarged. An estimate for the
    real size would be wrong, because a model of real size fits into the processor's caches.
    """
    spec = shown_pair()
    room = known_room(spec) if spec is not None else None
    if spec is None or room is None or not is_of(pair.target, room.target):
        return None
    chosen = {"target": spec.target_body, "draft": spec.draft_body}
    models = {"target": (pair.target, room.target), "draft": (pair.draft, room.draft)}
    costs: dict[str, BodyCost] = {}
    measured = measured_steps(room)
    for role, (info, shape) in models.items():
        body = chosen[role]
        if info is None or shape is None or body == body_of(info):
            continue
        if body == NO_BODY:
            return None
        with contextlib.suppress(ConfigError):  # raised if the model is already larger
            costs[role] = body_cost(body, shape, room)
    return _steps(costs, chosen, measured) if costs else None


def _steps(
    costs: Mapping[str, BodyCost],
    chosen: Mapping[str, str],
    measured: Mapping[tuple[str, str], float],
) -> SimulatedSteps:
    sizes = [f"{role} at {simulated_cost(chosen[role], c.parameters)}" for role, c in costs.items()]
    seconds = {
        role: measured.get((role, chosen[role]), cost.step_seconds) for role, cost in costs.items()
    }
    return SimulatedSteps(
        target=seconds.get("target"), draft=seconds.get("draft"), size=" and ".join(sizes)
    )
