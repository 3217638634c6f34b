"""Measure what limits the simulated sizes of a pair: the device's free memory and bandwidth.

A model at a simulated size is enlarged without changing its output. The measurement takes about a
second and needs no weights.
"""

from __future__ import annotations

from dataclasses import replace

from specviz.engine.loading import hardware
from specviz.engine.loading.opening import Side, no_progress, open_pair, quiet_for
from specviz.engine.model.growing import shape_of_model, skeleton_of
from specviz.engine.model.libraries import loading_errors
from specviz.kernels.packed_types import LANES, SHORT, packed_bytes
from specviz.record.bodies import NO_BODY, ModelShape
from specviz.record.body_costs import BodyRoom
from specviz.record.pairs import PairSpec


def body_room(spec: PairSpec) -> BodyRoom:
    """Return the dimensions of the original models, and the device's free memory and bandwidth.

    Simulated sizes that ``spec`` requests are ignored.

    Raises:
        SpecvizError: the pair cannot be opened.
    """
    with quiet_for(spec):
        opened = open_pair(replace(spec, target_body=NO_BODY, draft_body=NO_BODY), no_progress)
        target, *drafts = [_shape(side) for side in opened.sides]
    return BodyRoom(
        target=target,
        draft=drafts[0] if drafts else None,
        bandwidth=hardware.measure_bandwidth(opened.device),
        memory_free=hardware.free_memory(opened.device),
        itemsize=opened.dtype.itemsize,
    )


def _shape(side: Side) -> ModelShape | None:
    with loading_errors(side.source.name, "model"):
        shape = shape_of_model(skeleton_of(side.config))
    if shape is None or not side.packed_as:
        return shape
    if side.packed:  # the enlarged model would be in float32
        return replace(shape, quantised=(side.source.packed_bytes() / side.own_parameters, None))
    each = packed_bytes(side.quantise.upper(), LANES, SHORT) / (LANES * SHORT)
    return replace(shape, quantised=(each, each))
