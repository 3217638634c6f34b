"""Predict, before a training starts, the cost of a draft step, disk space and time.

Everything is predicted from the target's shape and this machine's memory bandwidth and arithmetic;
nothing is loaded. Once a training runs, ``training_job`` predicts the remaining time from its pace.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

import numpy as np

from specviz.record.bodies import NO_BODY, ModelShape, parameters_of
from specviz.record.body_costs import BodyCost, BodyRoom, body_cost
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
# Speeds that were measured with SmolLM2-135M, relative to that of a large product in float32:
_WRITING_SHARE = 0.5  # of passes with a token of each text, and of the draws
_FORWARD_SHARE = 0.85  # of passes over whole texts
_TRAINING_SHARE = 0.55  # of a draft's passes and their gradients
_SLOW_BFLOAT16 = 0.18  # of products in bfloat16, without instructions for them
_PACKED_SPEED = 0.62  # bytes of quantised weights in a step per second, relative to float32
_HEAD_SECONDS = 3e-4  # of a step of an EAGLE-3 head, besides its products
_ITERATIONS = 5  # of Muon, which makes the update of each matrix orthogonal
_PRODUCT, _PRODUCTS = 512, 12  # the measured product's size, and how many are measured
_LONG = 90 * 60  # seconds; longer times are given in hours


class DraftSize(Value):
    """How many parameters of a draft are trained, and how many a draft step reads."""

    trained: int
    read: int


class Estimate(Value):
    """The predicted cost of a training. ``disk_bytes`` is an upper limit.

    ``c``: the bytes that a draft step reads, divided by the bytes that a target step reads. Bytes
    of quantised weights count more, because a step reads them more slowly. A step of an EAGLE-3
    head also takes a fixed time.
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


def estimate(
    plan: TrainingPlan, room: BodyRoom, arithmetic: float, bfloat16: float | None = None
) -> Estimate | None:
    """Return the expected cost of a plan; None if training does not support the target.

    Args:
        plan: What to train.
        room: The target's shape, and this machine's bandwidth.
        arithmetic: Floating-point operations per second in a large matrix product.
        bfloat16: The speed of products in bfloat16, relative to products in float32; by default,
            the speed on this processor.
    """
    target = room.target
    if target is None:
        return None
    cost, size = body_cost(NO_BODY, target, room), draft_size(plan, target)
    tokens = plan.texts.count * plan.texts.longest
    states = state_bytes(target.shape.width, PLACES if plan.kind == "eagle3" else 0)
    passes = tokens / min(plan.texts.together, plan.texts.count)
    reading = tokens * 2 * parameters_of(target.shape, target) / arithmetic  # at full speed
    learning = plan.tokens * learning_operations(plan, target) / _TRAINING_SHARE
    updating = plan.steps * update_operations(plan, target) / (bfloat16 or bfloat16_speed())
    return Estimate(
        c=_relative_step(plan, room, size, cost),
        disk_bytes=round(
            tokens * (_TOKEN_BYTES + states) + size.trained * (_KEPT_COPIES * _FLOAT32 + _HALF)
        ),
        writing=passes * cost.step_seconds + reading / _WRITING_SHARE,
        computing=reading / _FORWARD_SHARE,
        training=(learning + updating) / arithmetic,
        draft_bytes=size.trained * _HALF,
    )


def _relative_step(plan: TrainingPlan, room: BodyRoom, size: DraftSize, cost: BodyCost) -> float:
    """Return the time of a draft step, relative to a target step."""
    weight_bytes = draft_weight_bytes(plan, room)
    target_speed = _PACKED_SPEED if _is_quantised(room) else 1.0
    draft_speed = _PACKED_SPEED if weight_bytes == _Q8_0 else 1.0
    fixed = _HEAD_SECONDS * target_speed / cost.step_seconds if plan.kind == "eagle3" else 0.0
    return fixed + (size.read * weight_bytes / draft_speed) / (cost.step_bytes / target_speed)


def _is_quantised(room: BodyRoom) -> bool:
    return room.target is not None and room.target.bytes_per_weight(NO_BODY) is not None


def draft_weight_bytes(plan: TrainingPlan, room: BodyRoom) -> float:
    """Return the bytes per weight of the draft when it is loaded with its target."""
    return _Q8_0 if plan.kind == "eagle3" and _is_quantised(room) else room.itemsize


def state_bytes(width: int, places: int) -> int:
    """Return the bytes stored per token: the final hidden state and ``places`` other states."""
    return _HALF * width * (places + 1) + _TOKEN_STATE_BYTES


def draft_size(plan: TrainingPlan, target: ModelShape) -> DraftSize:
    """Return the number of parameters of the draft that a plan trains for a target."""
    width = target.shape.width
    output = width * kept_tokens(plan, target)
    inner = sum(rows * columns for rows, columns in inner_matrices(plan, target))
    match plan.kind:
        case "eagle3":
            return DraftSize(trained=inner + output, read=inner + output)
        case "medusa":
            head = width * width + width + output
            return DraftSize(trained=plan.positions * head, read=head)
        case "small":
            reduced = kept_tokens(plan, target) < target.vocabulary
            table = target.vocabulary * width if reduced or not target.tied else 0
            return DraftSize(trained=inner + output + table, read=inner + output)


def inner_matrices(plan: TrainingPlan, target: ModelShape) -> list[tuple[int, int]]:
    """Return the shapes of a draft's matrices, without its embedding and output matrices."""
    width, inner = target.shape.width, target.shape.feed_forward
    queries, keys = target.heads * target.head_width, target.key_heads * target.head_width
    layer = [(queries, width), (keys, width), (keys, width), (width, queries)]
    layer += 3 * [(inner, width)]
    match plan.kind:
        case "eagle3":
            joined = [(rows, 2 * width) for rows in (queries, keys, keys)]
            return [(width, PLACES * width), *joined, *layer[3:]]
        case "medusa":
            return plan.positions * [(width, width)]
        case "small":
            return min(plan.layers, target.shape.layers) * layer


def kept_tokens(plan: TrainingPlan, target: ModelShape) -> int:
    """Return how many different tokens the draft can propose."""
    if not 0 < plan.vocabulary < target.vocabulary:
        return target.vocabulary
    return plan.vocabulary


def learning_operations(plan: TrainingPlan, target: ModelShape) -> int:
    """Return the floating-point operations per token for the loss and its gradient."""
    teacher = 2 * target.shape.width * kept_tokens(plan, target)
    passes = 1 if plan.kind == "small" else plan.positions
    return 2 * _BACKWARD * draft_size(plan, target).read * passes + teacher


def update_operations(plan: TrainingPlan, target: ModelShape) -> int:
    """Return the floating-point operations with which a step updates the inner matrices."""
    total = 0
    for shape in inner_matrices(plan, target):
        least, most = sorted(shape)
        total += _ITERATIONS * (4 * least**2 * most + 2 * least**3)
    return total


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


@cache
def bfloat16_speed() -> float:
    """Return this processor's speed of products in bfloat16, relative to float32."""
    try:
        known = "bf16" in Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:  # another system
        known = False
    return 1.0 if known else _SLOW_BFLOAT16
