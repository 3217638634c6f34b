"""Products with tiles are right, with equal bits for all numbers of rows, shares and vectors."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
import torch

from specviz.engine.model.tiles import tiles_of
from specviz.kernels import tiles
from tests.kernels.tile_products import multiply_tiles

MOST_ROWS = 17


def product(
    matrix: np.ndarray, x: np.ndarray, shares: list[tuple[int, int]], columns: int
) -> np.ndarray:
    """Multiply shares of the matrix one after another; columns outside them stay -1."""
    copied, out = tiles_of(torch.from_numpy(matrix)), np.full((len(x), columns), -1, np.float32)
    for begin, end in shares:
        multiply_tiles(copied.data_ptr(), x, begin, end, out)
    return out


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("width", [1, 128, 192, 257, 1_000])
@pytest.mark.parametrize("columns", [5, 16, 64, 200])
def test_results_do_not_depend_on_the_number_of_rows(width: int, columns: int) -> None:
    matrix, x = normal(columns, columns, width), normal(width, MOST_ROWS, width)
    whole = product(matrix, x, [(0, columns)], columns)
    exact = x.astype(np.float64) @ matrix.astype(np.float64).T
    np.testing.assert_allclose(whole, exact, rtol=1e-4, atol=2e-6 * width**0.5)
    for rows in range(1, MOST_ROWS):
        np.testing.assert_array_equal(
            product(matrix, x[:rows], [(0, columns)], columns), whole[:rows]
        )


@pytest.mark.parametrize("rows", [1, 2, 6, 13])
def test_shares_give_the_whole_and_write_nothing_else(rows: int) -> None:
    matrix, x = normal(1, 150, 300), normal(rows, rows, 300)
    whole = product(matrix, x, [(0, 150)], 150)
    np.testing.assert_array_equal(product(matrix, x, [(112, 150), (0, 48), (48, 112)], 150), whole)
    part = product(matrix, x, [(16, 85)], 150)
    np.testing.assert_array_equal(part[:, 16:85], whole[:, 16:85])
    assert (part[:, :16] == -1).all()
    assert (part[:, 85:] == -1).all()


def test_fewer_columns_than_the_matrix_has_rows_are_computed() -> None:
    """A vocabulary may be smaller than the output matrix."""
    matrix, x = normal(2, 64, 40), normal(3, 7, 40)
    whole = product(matrix, x, [(0, 64)], 64)
    np.testing.assert_array_equal(product(matrix, x, [(0, 50)], 50), whole[:, :50])


def test_more_rows_than_parts_to_prefetch() -> None:
    """A pass for many sequences has hundreds of rows."""
    matrix, x = normal(6, 70, 300), normal(7, 400, 300)
    whole = product(matrix, x, [(0, 70)], 70)
    for rows in (18, 100, 193):
        np.testing.assert_array_equal(product(matrix, x[:rows], [(0, 70)], 70), whole[:rows])
    np.testing.assert_allclose(whole, x @ matrix.T, atol=1e-4)


@pytest.mark.parametrize("num_tiles", [None, 1, 4])
@pytest.mark.parametrize("rows", range(1, 7))
@pytest.mark.parametrize("wide", [False, True])
def test_the_bits_do_not_depend_on_the_vectors(
    wide: bool, rows: int, num_tiles: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processors with other vectors multiply other numbers of rows and tiles at once."""
    matrix, x = normal(4, 112, 256), normal(5, rows, 256)
    expected = product(matrix, x, [(0, 112)], 112)
    monkeypatch.setattr(tiles, "has_wide_vectors", lambda: wide)
    most_rows, most_tiles = tiles._shape()
    emit: Any = tiles._make_dots(rows, num_tiles)
    columns = 16 * (num_tiles or (most_tiles if rows <= most_rows else 0))
    copied, out = tiles_of(torch.from_numpy(matrix)), np.zeros((rows, 64), np.float32)

    @numba.njit
    def multiply(place: int, x: np.ndarray, out: np.ndarray) -> None:
        first, into = x.ctypes.data, out.ctypes.data
        for column in (0, 128):
            source, values = place + 64 * column, first + 4 * column
            emit(source, 64 * 256, 128, values, 256, into, 64, column, place, 64)

    multiply(copied.data_ptr(), x, out)
    np.testing.assert_array_equal(out[:, :columns], expected[:, :columns])
    assert not out[:, columns:].any()
