"""Time a step (specviz's own forward pass) of a few target and draft shapes, with random weights.

The cost of a step depends on the shape, not on the trained weights, so shapes can be chosen before
training. All shapes are timed in turn, several times.
"""

from __future__ import annotations

import time
from statistics import median

import torch
from transformers import LlamaForCausalLM

from specviz.engine.model.lean import LeanStep
from specviz.engine.model.lean_weights import LeanWeights
from specviz.record.bodies import Shape
from specviz.training.models import llama_config
from specviz.values import Value

TARGETS = (
    Shape(layers=8, width=192, feed_forward=512),
    Shape(layers=10, width=192, feed_forward=512),
    Shape(layers=12, width=192, feed_forward=512),
    Shape(layers=12, width=160, feed_forward=432),
    Shape(layers=8, width=256, feed_forward=688),
    Shape(layers=12, width=256, feed_forward=688),
)
DRAFTS = (
    Shape(layers=1, width=128, feed_forward=352),
    Shape(layers=1, width=192, feed_forward=512),
    Shape(layers=1, width=256, feed_forward=688),
    Shape(layers=2, width=192, feed_forward=512),
)
_VOCABULARY = 4096
_CONTEXT = 200
_REPEATS = 60
_FED = (1, 6)


class ShapeCost(Value):
    """The time of a step with one token and of a step with six tokens, in milliseconds."""

    shape: Shape
    parameters: int
    one: float
    six: float


def measure_shapes() -> tuple[list[ShapeCost], list[ShapeCost]]:
    """Return the step costs of all ``TARGETS``, then the step costs of all ``DRAFTS``."""
    costs = _measure((*TARGETS, *DRAFTS))
    return costs[: len(TARGETS)], costs[len(TARGETS) :]


def shapes_table(targets: list[ShapeCost], drafts: list[ShapeCost]) -> str:
    """Return the step costs as a Markdown table.

    c is a draft's step time divided by the step time of the target with 12 layers of width 192.
    """
    reference = next(cost for cost in targets if cost.shape == TARGETS[2])
    lines = ["| shape | parameters | step, ms | 6 tokens, ms | v(6) or c |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    lines += [_row("target", cost, f"v {cost.six / cost.one:.2f}") for cost in targets]
    lines += [_row("draft", cost, f"c {cost.one / reference.one:.3f}") for cost in drafts]
    return "\n".join(lines)


def _row(role: str, cost: ShapeCost, ratio: str) -> str:
    shape = cost.shape
    return (
        f"| {role} {shape.layers} × {shape.width} | {cost.parameters / 1e6:.2f} M "
        f"| {cost.one:.2f} | {cost.six:.2f} | {ratio} |"
    )


@torch.inference_mode()
def _measure(shapes: tuple[Shape, ...]) -> list[ShapeCost]:
    models = [_random_model(shape) for shape in shapes]
    steps = [_filled_step(model) for model in models]
    times: list[dict[int, list[float]]] = [{fed: [] for fed in _FED} for _ in steps]
    for _ in range(_REPEATS):
        for step, samples in zip(steps, times, strict=True):
            for fed in _FED:
                samples[fed].append(_feed_ms(step, fed))
    return [
        ShapeCost(
            shape=shape,
            parameters=model.num_parameters(),
            one=median(samples[1]),
            six=median(samples[6]),
        )
        for shape, model, samples in zip(shapes, models, times, strict=True)
    ]


def _random_model(shape: Shape) -> LlamaForCausalLM:
    return LlamaForCausalLM(llama_config(shape, _VOCABULARY)).eval()


def _filled_step(model: LlamaForCausalLM) -> LeanStep:
    weights = LeanWeights.take(model)
    assert weights is not None
    step = LeanStep(weights, _VOCABULARY, _CONTEXT + max(_FED))
    step.feed(torch.arange(_CONTEXT), 0)
    return step


def _feed_ms(step: LeanStep, fed: int) -> float:
    """Feed the tokens twice; return the milliseconds of the second feed, with warm CPU caches."""
    ids = torch.arange(fed)
    step.feed(ids, fed)
    step.forget(fed)
    began = time.perf_counter()
    step.feed(ids, fed)
    elapsed = time.perf_counter() - began
    step.forget(fed)
    return 1e3 * elapsed
