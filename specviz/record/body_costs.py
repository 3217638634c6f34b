"""What a body would cost here, before it is grown; and the body that a page begins with.

A step of one token reads all weights once, so its time follows from the bandwidth at which this
machine reads memory. It is an expectation, and is shown as one: what is measured replaces it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from specviz.errors import ConfigError
from specviz.record.bodies import NAMED_BODIES, NO_BODY, ModelShape, parameters_of, shape_of
from specviz.record.pairs import memory_margin

STEP_SHARE = 0.6  # of the bandwidth: what a step of one token reaches
LONGEST_STEP = 0.06  # seconds, of a body that nobody asked for
MEMORY_SHARE = 0.25  # of the free memory, for a body that nobody asked for
_OFFERED_SIZES = ("10M", "30M", "60M", "90M", "200M", "500M")
_SIZES = ("90M", "60M", "30M")  # for machines that are too slow for every named body


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyRoom:
    """What this machine has for bodies of a pair; a model that cannot be grown has no shape."""

    target: ModelShape | None
    draft: ModelShape | None
    bandwidth: float  # bytes a second, read by a bare sum
    memory_free: int | None  # bytes; None where nobody can say
    itemsize: int  # bytes of a weight


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyCost:
    parameters: int
    memory_bytes: int  # of the weights
    step_bytes: int  # weights that a step of one token reads
    step_seconds: float  # expected

    def fits(self, room: BodyRoom) -> bool | None:
        """Whether there is memory to load and run it; None where nobody can say."""
        if room.memory_free is None:
            return None
        return memory_margin(self.memory_bytes) <= room.memory_free


def body_cost(body: str, model: ModelShape, room: BodyRoom) -> BodyCost:
    """Of the model in a body, or of the model itself; ConfigError where the body is smaller."""
    shape = model.shape if body == NO_BODY else shape_of(body, model)
    parameters = parameters_of(shape, model)
    read = parameters if model.tied else parameters - model.vocabulary * shape.width
    return BodyCost(
        parameters=parameters,
        memory_bytes=parameters * room.itemsize,
        step_bytes=read * room.itemsize,
        step_seconds=read * room.itemsize / (STEP_SHARE * room.bandwidth),
    )


def default_body(room: BodyRoom) -> str:
    """For the target: the largest named body that steps fast enough and leaves memory free.

    Where none does, the largest size of a few; ``none`` where even these are too slow, or where
    the model cannot be grown to any.
    """
    named = dict(_light_enough(room, tuple(NAMED_BODIES)))
    sizes = dict(_light_enough(room, _SIZES))
    light = named or sizes
    return max(light, key=lambda body: light[body].parameters, default=NO_BODY)


def _light_enough(room: BodyRoom, bodies: tuple[str, ...]) -> Iterator[tuple[str, BodyCost]]:
    if room.target is None or room.memory_free is None:
        return
    for body, cost in _larger_than(room.target, room, bodies):
        light = cost.memory_bytes <= MEMORY_SHARE * room.memory_free
        if light and cost.fits(room) and cost.step_seconds <= LONGEST_STEP:
            yield body, cost


def body_choices(model: ModelShape, room: BodyRoom) -> tuple[tuple[str, BodyCost], ...]:
    """The bodies that a page offers for a model, the smallest first; without those too small."""
    costs = dict(_larger_than(model, room, (*_OFFERED_SIZES, *NAMED_BODIES)))
    return tuple(sorted(costs.items(), key=lambda each: each[1].parameters))


def _larger_than(
    model: ModelShape, room: BodyRoom, bodies: tuple[str, ...]
) -> Iterator[tuple[str, BodyCost]]:
    for body in bodies:
        with contextlib.suppress(ConfigError):
            yield body, body_cost(body, model, room)
