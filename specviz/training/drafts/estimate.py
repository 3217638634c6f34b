"""Predict, before a training starts, the cost of a draft step, disk space and time.

Everything is predicted from the target's shape and this machine's memory bandwidth and arithmetic;
nothing is loaded. Once a training runs, ``training_job`` predicts the remaining time from its pace.
"""

from __future__ import annotations

import time
from functools import cache

import numpy as np

from specviz.record.bodies import NO_BODY, ModelShape, parameters_of
from specviz.record.body_costs import BodyRoom, body_cost
from specviz.record.numbers import COST, SIZE, time_text
from specviz.training.drafts.plan import TrainingPlan
from specviz.values import Value

PLACES = 3  # hidden states that an EAGLE-3 head reads
_FLOAT32, _HALF = 4, 2  # bytes
_Q8_0 = 34 / 32  # bytes per weight
_TOKEN_BYTES = 5  # of a text on disk: the token and whether the target wrote it
_TOKEN_STATE_BYTES = 8  # log-sum-exp and the likeliest token
_KEPT_COPIES = 4  # of a draft's weights: those in training, the optimisers' two, the best ones
_BACKWARD = 3  # a training step computes this many times what a forward pass does
_ARITHMETIC_SHARE = 0.5  # share of a large product's speed that passes over texts reach
_PRODUCT, _PRODUCTS = 512, 12  # the measured product's size, and how many are measured
_LONG = 90 * 60  # seconds; longer times are given in hours


class DraftSize(Value):
    """How many parameters of a draft are trained, and how many a draft step reads."""

    trained: int
    read: int


class Estimate(Value):
    """The predicted cost of a training. ``disk_bytes`` is an upper limit.

    ``c``: the bytes that a draft step reads, divided by those that a target step reads.
    """

    c: float
    disk_bytes: int
    writing: float  # seconds to write the texts
    computing: float  # seconds to compute the hidden states
    training: float
    draft_bytes: int  # of the result on disk

    @property
    def seconds(self) -> float:
        return self.writing + self.computing + self.training

    @property
    def words(self) -> str:
        """Return text such as "c about 0.060 here, up to 1.2 GB of disk, about 3.0 hours"."""
        return (
            f"c about {COST.shown(self.c)} here, up to {SIZE.shown(self.disk_bytes)} of disk, "
            f"about {long_time(self.seconds)}"
        )


def estimate(plan: TrainingPlan, room: BodyRoom, arithmetic: float) -> Estimate | None:
    """Return the expected cost of a plan; None if training does not support the target.

    Args:
        plan: What to train.
        room: The target's shape, and this machine's bandwidth.
        arithmetic: Floating-point operations per second in a large matrix product.
    """
    target = room.target
    if target is None:
        return None
    cost, size = body_cost(NO_BODY, target, room), draft_size(plan, target)
    tokens = plan.texts.count * plan.texts.longest
    states = state_bytes(target.shape.width, PLACES if plan.kind == "eagle3" else 0)
    speed = _ARITHMETIC_SHARE * arithmetic
    passes = tokens / min(plan.texts.together, plan.texts.count)
    once = 2 * parameters_of(target.shape, target) / speed  # seconds of arithmetic for one token
    weight_bytes = draft_weight_bytes(plan, room)
    return Estimate(
        c=size.read * weight_bytes / cost.step_bytes,
        disk_bytes=round(
            tokens * (_TOKEN_BYTES + states) + size.trained * (_KEPT_COPIES * _FLOAT32 + _HALF)
        ),
        writing=passes * cost.step_seconds + tokens * once,
        computing=tokens * once,
        training=plan.tokens * _operations(plan, target, size) / speed,
        draft_bytes=size.trained * _HALF,
    )


def draft_weight_bytes(plan: TrainingPlan, room: BodyRoom) -> float:
    """Return the bytes per weight of the draft when it is loaded with its target."""
    beside_quantised = room.target is not None and room.target.bytes_per_weight(NO_BODY) is not None
    return _Q8_0 if plan.kind == "eagle3" and beside_quantised else room.itemsize


def state_bytes(width: int, places: int) -> int:
    """Return the bytes stored per token: the final hidden state and ``places`` other states."""
    return _HALF * width * (places + 1) + _TOKEN_STATE_BYTES


def draft_size(plan: TrainingPlan, target: ModelShape) -> DraftSize:
    """Return the number of parameters of the draft that a plan trains for a target."""
    width, inner = target.shape.width, target.shape.feed_forward
    queries, keys = target.heads * target.head_width, target.key_heads * target.head_width
    output = width * kept_tokens(plan, target)
    match plan.kind:
        case "eagle3":
            joined = 2 * width * (queries + 2 * keys) + queries * width
            own = PLACES * width * width + joined + 3 * width * inner + output
            return DraftSize(trained=own, read=own)
        case "medusa":
            head = width * width + width + output
            return DraftSize(trained=plan.positions * head, read=head)
        case "small":
            layer = width * (queries + 2 * keys) + queries * width + 3 * width * inner
            own = min(plan.layers, target.shape.layers) * layer + output
            reduced = kept_tokens(plan, target) < target.vocabulary
            table = target.vocabulary * width if reduced or not target.tied else 0
            return DraftSize(trained=own + table, read=own)


def kept_tokens(plan: TrainingPlan, target: ModelShape) -> int:
    """Return how many different tokens the draft can propose."""
    if not 0 < plan.vocabulary < target.vocabulary:
        return target.vocabulary
    return plan.vocabulary


def _operations(plan: TrainingPlan, target: ModelShape, size: DraftSize) -> float:
    """Return the number of floating-point operations per token in a training step."""
    teacher = 2 * target.shape.width * kept_tokens(plan, target)
    passes = 1 if plan.kind == "small" else plan.positions
    return 2 * _BACKWARD * size.read * passes + teacher


def long_time(seconds: float) -> str:
    """Return an estimated time, such as "3 min" or "2.5 hours"."""
    return time_text(seconds) if seconds < _LONG else f"{seconds / 3600:.1f} hours"


@cache
def measured_arithmetic() -> float:
    """Return this processor's floating-point operations per second in a matrix product.

    The fastest of several products counts: the first product also starts threads, and other work
    on the machine may slow products down.
    """
    rows = np.ones((_PRODUCT, _PRODUCT), np.float32)
    seconds = list[float]()
    for _ in range(_PRODUCTS):
        start = time.perf_counter()
        np.dot(rows, rows)
        seconds.append(time.perf_counter() - start)
    return 2 * _PRODUCT**3 / min(seconds)
