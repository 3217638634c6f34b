"""A vectorisable exponential, and the softmax built on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from specviz.kernels.compiled import compiled, compiled_in_order
from specviz.kernels.simd import larger, power_of_two

_MIN_EXPONENT = -87.0  # exp of anything smaller is subnormal in float32
_SMALLEST_NORMAL = 1.7e-38  # just above exp(_MIN_EXPONENT)
_BLOCK = 1024  # entries summed in single precision


@compiled_in_order
def exp(x: Any) -> Any:
    """Return exp(x) with a relative error of about 1e-7; branch-free, so it vectorises."""
    x = min(max(x, np.float32(_MIN_EXPONENT)), np.float32(87.0))
    # In numba, sums of int32 are int64, whose conversion to float AVX2 cannot vectorise.
    biased = np.int32(x * np.float32(1.44269504) + np.float32(127.5))
    exponent = np.float32(biased) - np.float32(127.0)
    rest = x - exponent * np.float32(0.693359375)
    rest = rest - exponent * np.float32(-2.12194440e-4)
    sum_ = np.float32(1.9875691500e-4)
    sum_ = sum_ * rest + np.float32(1.3981999507e-3)
    sum_ = sum_ * rest + np.float32(8.3334519073e-3)
    sum_ = sum_ * rest + np.float32(4.1665795894e-2)
    sum_ = sum_ * rest + np.float32(1.6666665459e-1)
    sum_ = sum_ * rest + np.float32(5.0000001201e-1)
    sum_ = sum_ * rest * rest + rest + np.float32(1.0)
    return sum_ * power_of_two(biased)


@compiled
def soften(scores: Any, scale: Any) -> Any:
    """Replace scores by unnormalised softmax weights, in place; return the sum of the weights.

    The weight of a score is exp(scale * (score - highest score)).
    """
    highest = scores[0]
    for i in range(scores.shape[0]):
        highest = larger(highest, scores[i])
    total = np.float32(0.0)
    for i in range(scores.shape[0]):
        weight = exp((scores[i] - highest) * scale)
        scores[i] = weight
        total += weight
    return total


@compiled
def _exp_and_sum(scores: Any, highest: Any, out: Any) -> Any:
    """Write ``exp(scores - highest)`` to ``out``; return the sum of the exponentials."""
    total = np.float32(0.0)
    for i in range(scores.shape[0]):
        weight = exp(scores[i] - highest)
        out[i] = weight
        total += weight
    return total


@compiled
def softmax(logits: Any, out: Any) -> None:
    """Write the softmax of a float32 row; subnormal probabilities become 0."""
    size = logits.shape[0]
    highest = logits[0]
    for i in range(size):
        highest = larger(highest, logits[i])
    total = 0.0
    for begin in range(0, size, _BLOCK):
        end = begin + _BLOCK
        total += _exp_and_sum(logits[begin:end], highest, out[begin:end])
    scale = np.float32(1.0 / total)
    for i in range(size):
        weight = out[i]
        out[i] = weight * scale if weight > np.float32(_SMALLEST_NORMAL) else np.float32(0.0)
