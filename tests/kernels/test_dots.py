"""Dot products have the same bits however often a processor prefetches."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from specviz.kernels import dots

ON_AMD, ELSEWHERE = 16, 64  # bytes from one prefetch to the next
WEIGHTS = 4  # matrix rows at once


def multiplied(
    weights: np.ndarray, x: np.ndarray, every: int, monkeypatch: pytest.MonkeyPatch
) -> np.ndarray:
    """Return x @ weights.T, compiled for this distance of prefetches."""
    monkeypatch.setattr(dots, "_fetch_every", lambda: every)
    emit: Any = dots.make_dots(len(x), WEIGHTS)

    @numba.njit
    def multiply(weights: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
        width = np.int64(weights.shape[1])
        first, second, third = weights.ctypes.data, x.ctypes.data, out.ctypes.data
        emit(weights[0, 0], first, second, width, width, third, np.int64(out.shape[1]), 0, 0)

    out = np.zeros((len(x), len(weights)), dtype=np.float32)
    multiply(weights, x, out)
    return out


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("width", [5, 64, 203])
def test_the_bits_do_not_depend_on_the_prefetches(
    rows: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(rows * width)
    weights = random.standard_normal((WEIGHTS, width)).astype(np.float32)
    x = random.standard_normal((rows, width)).astype(np.float32)
    first, second = (multiplied(weights, x, every, monkeypatch) for every in (ON_AMD, ELSEWHERE))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, x @ weights.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("features", "every"), [({"sse4a"}, ON_AMD), ({"avx512f"}, ELSEWHERE)])
def test_only_amd_processors_prefetch_a_line_several_times(
    features: set[str], every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dots, "processor_features", lambda: frozenset(features))
    assert dots._fetch_every() == every
