"""Measure products of few rows: ``python -m tests.kernels.measure_products [KIND …]``.

A kind is a dtype, whose matrices are stored row by row, or ``tiles``, which are float32.

Needs a quiet machine; uses one thread. The limit of a product is the larger of two times: its bytes
over the bandwidth of the level of memory that its matrices fill, and its operations over the peak.
Both are measured between the products. The peak is that of multiply-adds whose operands stay in
registers; the bandwidth is that of a bare sum over as many bytes. Prints the median share of the
limit for each kind, size of memory, width and number of rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numba
import numba.extending
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from specviz.kernels import dots
from specviz.kernels.arrays import STORED_ONES, scratch
from specviz.kernels.product import multiply, reads_narrow_rows
from tests.kernels.tile_products import multiply_tiles

TILES = "tiles"
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 17)
WIDTHS = (192, 576, 768, 2048, 4096)
MEGABYTES = {"L2": 0.5, "L3": 6.0, "memory": 160.0}
REPEATS = 9
intrinsic: Any = numba.extending.intrinsic
_SUMS = (10, 24)  # independent accumulators: as many as fit in 16 and in 32 registers
_ROUNDS = 20_000


def main(*kinds: str) -> None:
    for name in kinds or (TILES, "float32", "bfloat16"):
        for level, megabytes in MEGABYTES.items():
            print(f"\n{name}, {megabytes} MB of matrices ({level})")
            print("width      " + "".join(f"{rows:6d}" for rows in ROWS) + "  GB/s GFLOP/s")
            for width in WIDTHS:
                _measure(name, width, int(megabytes * 1e6))


def _measure(kind: str, width: int, num_bytes: int) -> None:
    name = "float32" if kind == TILES else kind
    one = STORED_ONES[name]
    places = max(16, min(num_bytes // (width * one.nbytes), 4 * width) // 16 * 16)
    count = max(1, num_bytes // (places * width * one.nbytes))
    weights = scratch(count * places * width * one.nbytes // 4).view(one.dtype)
    weights = weights.reshape(count, places, width)
    weights[:] = one
    products = {rows: _products(kind, one, weights, rows) for rows in ROWS}
    numbers = weights.reshape(-1).view(np.float32)
    peak = _peak_function(name)
    shares: dict[int, list[float]] = {rows: [] for rows in ROWS}
    rates: list[tuple[float, float]] = []
    for _ in range(REPEATS):
        bandwidth = numbers.nbytes / _seconds(lambda: _sum(numbers), num_bytes)
        operations = peak()
        rates.append((bandwidth, operations))
        for rows, run in products.items():
            limit = max(weights.nbytes / bandwidth, 2 * rows * weights.size / operations)
            shares[rows].append(limit / _seconds(run, num_bytes))
    print(f"{places:5d}x{width:5d}" + "".join(f"{median(each):6.2f}" for each in shares.values())
          + f"{median(each[0] for each in rates) / 1e9:6.1f}"
          + f"{median(each[1] for each in rates) / 1e9:8.0f}", flush=True)  # fmt: skip


def _products(kind: str, one: Any, weights: np.ndarray, rows: int) -> Callable[[], None]:
    x, out = scratch(rows, weights.shape[2]), scratch(rows, weights.shape[1])
    x[:] = 1

    def run() -> None:
        for each in weights:
            if kind == TILES:  # all weights are equal, so no copy is needed
                multiply_tiles(each.ctypes.data, x, 0, out.shape[1], out)
            else:
                multiply(one, 0, 1, each.ctypes.data, 0, x, out)

    return run


def _seconds(run: Callable[[], Any], num_bytes: int) -> float:
    """Return the seconds of one call: the fastest of a few, each after another with the caches."""
    times = max(1, int(4e6 // num_bytes))
    run()
    spent = []
    for _ in range(3):
        begin = perf_counter()
        for _ in range(times):
            run()
        spent.append((perf_counter() - begin) / times)
    return min(spent)


@numba.njit(fastmath=True)
def _sum(numbers: Any) -> Any:
    total = np.float32(0)
    for i in range(numbers.shape[0]):
        total += numbers[i]
    return total


def _peak_function(name: str) -> Callable[[], float]:
    """Return a function that measures multiply-adds in registers, in operations per second."""
    pairs = reads_narrow_rows(name)
    lane_counts, per_lane = ((16,), 4) if pairs else ((8, 16), 2)
    made = [
        (_make_multiply_adds(lanes, sums, pairs=pairs), per_lane * lanes * sums)
        for lanes in lane_counts
        for sums in _SUMS
    ]

    def measure() -> float:
        best = 0.0
        for function, operations in made:
            function(1)
            begin = perf_counter()
            function(_ROUNDS)
            best = max(best, operations * _ROUNDS / (perf_counter() - begin))
        return best

    return measure


def _make_multiply_adds(lanes: int, num_sums: int, *, pairs: bool) -> Any:
    floats = ir.VectorType(ir.FloatType(), lanes)
    factors = ir.VectorType(ir.IntType(16), 2 * lanes) if pairs else floats

    @intrinsic
    def multiply_adds(typing: Any, factor: Any, rounds: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            zero = ir.Constant(floats, [0.0] * lanes)
            sums = [cgutils.alloca_once_value(builder, zero) for _ in range(num_sums)]
            first = builder.inttoptr(args[0], ir.PointerType(factors))
            value = builder.load(first, align=4)
            emit_of = dots.pair_multiply_add if pairs else dots.multiply_add
            emit = emit_of(builder, lanes)
            with cgutils.for_range(builder, args[1]):
                for each in sums:
                    builder.store(emit(value, value, builder.load(each)), each)
            total = builder.load(sums[0])
            for each in sums[1:]:
                total = builder.fadd(total, builder.load(each))
            return builder.extract_element(total, ir.IntType(32)(0))

        return types.float32(types.int64, types.int64), make

    @numba.njit
    def run(place: int, rounds: int) -> Any:
        return multiply_adds(place, rounds)

    zeros = np.zeros(16, np.float32)
    return lambda rounds: run(zeros.ctypes.data, rounds)


if __name__ == "__main__":
    main(*sys.argv[1:])
