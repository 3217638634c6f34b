"""Products with tiles: right, and with the same bits for every number of rows and every share."""

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


@pytest.mark.parametrize("width", [1, 192, 256, 257, 1_000])
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


@pytest.mark.parametrize("wide", [False, True])
def test_the_bits_do_not_depend_on_the_vectors(wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processors with other vectors multiply other numbers of tiles at once."""
    matrix, x = normal(4, 112, 300), normal(5, 6, 300)
    expected = product(matrix, x, [(0, 112)], 112)
    monkeypatch.setattr(tiles, "has_wide_vectors", lambda: wide)
    out = np.empty((6, 64), np.float32)
    emit: Any = tiles._make_dots(6)
    count = tiles._num_tiles(6)
    copied = tiles_of(torch.from_numpy(matrix))

    @numba.njit
    def multiply(place: int, x: np.ndarray, out: np.ndarray) -> None:
        first, into = x.ctypes.data, out.ctypes.data
        for column in (0, 150):
            emit(
                place + 64 * column,
                64 * 300,
                150,
                first + 4 * column,
                300,
                into,
                64,
                column,
                place,
                64,
            )

    multiply(copied.data_ptr(), x, out)
    np.testing.assert_array_equal(out[:, : 16 * count], expected[:, : 16 * count])
