"""The exponential that runs in lanes, and the softmax made of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from specviz.kernels.compiled import compiled, compiled_in_order, kernel
from specviz.kernels.simd import power_of_two

_LEAST = -87.0  # e to any less is no ordinary float32
_RAREST = 1.7e-38  # just above e to that
_BLOCK = 1024  # entries that are summed in single precision


@compiled_in_order
def exp(x: Any) -> Any:
    """e to the x, to about one part in ten million; it has no branch, so it runs in lanes."""
    x = min(max(x, np.float32(_LEAST)), np.float32(87.0))
    power = np.int32(x * np.float32(1.44269504) + np.float32(127.5)) - np.int32(127)
    turns = np.float32(power)
    rest = x - turns * np.float32(0.693359375)
    rest = rest - turns * np.float32(-2.12194440e-4)
    sum_ = np.float32(1.9875691500e-4)
    sum_ = sum_ * rest + np.float32(1.3981999507e-3)
    sum_ = sum_ * rest + np.float32(8.3334519073e-3)
    sum_ = sum_ * rest + np.float32(4.1665795894e-2)
    sum_ = sum_ * rest + np.float32(1.6666665459e-1)
    sum_ = sum_ * rest + np.float32(5.0000001201e-1)
    sum_ = sum_ * rest * rest + rest + np.float32(1.0)
    return sum_ * power_of_two(np.int32(power))


@compiled
def soften(scores: Any, scale: Any) -> Any:
    """Scores to weights, not yet divided by their sum, which is returned."""
    highest = scores[0]
    for i in range(scores.shape[0]):
        highest = max(highest, scores[i])
    total = np.float32(0.0)
    for i in range(scores.shape[0]):
        weight = exp((scores[i] - highest) * scale)
        scores[i] = weight
        total += weight
    return total


@compiled
def _weigh(scores: Any, highest: Any, out: Any) -> Any:
    """The weights of a few scores, and their sum."""
    total = np.float32(0.0)
    for i in range(scores.shape[0]):
        weight = exp(scores[i] - highest)
        out[i] = weight
        total += weight
    return total


@kernel
def softmax(logits: Any, out: Any) -> None:
    """Of each row of float32; what is too rare for an ordinary float32 is nought."""
    size = logits.shape[1]
    for row in range(logits.shape[0]):
        highest = logits[row, 0]
        for i in range(size):
            highest = max(highest, logits[row, i])
        total = 0.0
        for begin in range(0, size, _BLOCK):
            end = begin + _BLOCK
            total += _weigh(logits[row, begin:end], highest, out[row, begin:end])
        scale = np.float32(1.0 / total)
        for i in range(size):
            weight = out[row, i]
            out[row, i] = weight * scale if weight > np.float32(_RAREST) else np.float32(0.0)
