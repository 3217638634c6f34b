"""What this machine has for bodies of a pair, found in about a second and without its weights."""

from __future__ import annotations

from dataclasses import replace

from specviz.engine.loading import hardware
from specviz.engine.loading.opening import Side, no_progress, open_pair
from specviz.engine.model.growing import shape_of_model, skeleton_of
from specviz.engine.model.libraries import explained, quiet_libraries
from specviz.record.bodies import NO_BODY, ModelShape
from specviz.record.body_costs import BodyRoom
from specviz.record.pairs import PairSpec


def body_room(spec: PairSpec) -> BodyRoom:
    """Of the pair as it is, whatever bodies are asked for. Raises SpecvizError as a check does."""
    with quiet_libraries():
        opened = open_pair(replace(spec, target_body=NO_BODY, draft_body=NO_BODY), no_progress)
        target, *drafts = [_shape(side) for side in opened.sides]
    return BodyRoom(
        target=target,
        draft=drafts[0] if drafts else None,
        bandwidth=hardware.read_bandwidth(opened.device),
        memory_free=hardware.free_memory(opened.device),
        itemsize=opened.dtype.itemsize,
    )


def _shape(side: Side) -> ModelShape | None:
    with explained(side.source.name, "model"):
        return shape_of_model(skeleton_of(side.config))
