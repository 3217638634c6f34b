"""The expected cost of a simulated size on this machine, and the size that pages choose by default.

A step of one token reads all weights once, so the step's time follows from the memory bandwidth of
this machine. Once the model has been enlarged and its step measured, pages show the measured
time instead of the expected time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from specviz.errors import ConfigError
from specviz.record.bodies import NAMED_BODIES, NO_BODY, ModelShape, parameters_of, shape_of
from specviz.record.pairs import memory_margin
from specviz.values import Value

STEP_SHARE = 0.6  # share of the bandwidth that a step of one token reaches
LONGEST_STEP = 0.06  # seconds that a step with a default body may take
MEMORY_SHARE = 0.25  # share of the free memory that a default body may take
_OFFERED_SIZES = ("10M", "30M", "60M", "90M", "200M", "500M")
_FALLBACK_SIZES = ("90M", "60M", "30M")  # for machines too slow for every named body


class BodyRoom(Value):
    """What limits the simulated sizes: the models of a pair, and this machine's resources.

    ``target`` or ``draft`` is None if that model cannot be enlarged.
    """

    target: ModelShape | None
    draft: ModelShape | None
    bandwidth: float  # bytes per second that a plain sum reads
    memory_free: int | None  # bytes; None if unknown
    itemsize: int  # bytes per weight that is not quantised


class BodyCost(Value):
    parameters: int
    memory_bytes: int  # size of the weights
    step_bytes: int  # weights that a step of one token reads
    step_seconds: float  # expected

    def fits(self, room: BodyRoom) -> bool | None:
        """Return whether the free memory suffices to load and run the model; None if unknown."""
        if room.memory_free is None:
            return None
        return memory_margin(self.memory_bytes) <= room.memory_free


def body_cost(body: str, model: ModelShape, room: BodyRoom) -> BodyCost:
    """Return the cost of a model at a simulated size, or at its real size for ``none``.

    Raises:
        ConfigError: The simulated size is smaller than the model.
    """
    shape = model.shape if body == NO_BODY else shape_of(body, model)
    parameters = parameters_of(shape, model)
    read = parameters if model.tied else parameters - model.vocabulary * shape.width
    itemsize = model.bytes_per_weight(body) or room.itemsize
    return BodyCost(
        parameters=parameters,
        memory_bytes=round(parameters * itemsize),
        step_bytes=round(read * itemsize),
        step_seconds=read * itemsize / (STEP_SHARE * room.bandwidth),
    )


def default_body(room: BodyRoom) -> str:
    """Return the largest size named after a model that is fast enough and leaves memory free.

    If there is none, return the largest of ``_FALLBACK_SIZES`` that is fast enough and leaves
    memory free. If there is none either, or if the target cannot be enlarged, return ``none``.
    """
    named = dict(_affordable(room, tuple(NAMED_BODIES)))
    sizes = dict(_affordable(room, _FALLBACK_SIZES))
    costs = named or sizes
    return max(costs, key=lambda body: costs[body].parameters, default=NO_BODY)


def _affordable(room: BodyRoom, bodies: tuple[str, ...]) -> Iterator[tuple[str, BodyCost]]:
    if room.target is None or room.memory_free is None:
        return
    for body, cost in _larger_than(room.target, room, bodies):
        small = cost.memory_bytes <= MEMORY_SHARE * room.memory_free
        if small and cost.fits(room) and cost.step_seconds <= LONGEST_STEP:
            yield body, cost


def body_choices(model: ModelShape, room: BodyRoom) -> tuple[tuple[str, BodyCost], ...]:
    """Return the simulated sizes that a page offers for a model, smallest first, with costs."""
    costs = dict(_larger_than(model, room, (*_OFFERED_SIZES, *NAMED_BODIES)))
    return tuple(sorted(costs.items(), key=lambda each: each[1].parameters))


def _larger_than(
    model: ModelShape, room: BodyRoom, bodies: tuple[str, ...]
) -> Iterator[tuple[str, BodyCost]]:
    for body in bodies:
        with contextlib.suppress(ConfigError):
            yield body, body_cost(body, model, room)
