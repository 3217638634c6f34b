"""Products with quantised matrices: exact, and independent of rows, threads and processors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from specviz import ROOT
from specviz.formats.gguf_support import stays_quantised
from specviz.kernels.packed import read_rows
from specviz.kernels.packed_types import PACKED_TYPES, can_pack
from tests.kernels.packed_matrices import (
    activations,
    dequantised,
    emulated,
    multiplied,
    random_blocks,
    table_of,
)
from tests.kernels.processors import masked

WIDTH = 512


@pytest.mark.parametrize("kind", PACKED_TYPES)
def test_a_packed_row_has_the_values_of_its_blocks(kind: str) -> None:
    raw = random_blocks(kind, 37, WIDTH)
    table, memory = table_of(kind, raw, WIDTH)
    rows, out = np.array([0, 1, 15, 16, 36]), np.empty((5, WIDTH), np.float32)
    read_rows(table.ctypes.data, rows, out)
    np.testing.assert_array_equal(out, dequantised(kind, raw[rows]))
    assert memory.nbytes == pytest.approx(raw.nbytes * 48 / 37, rel=0.05 if kind != "IQ4_NL" else 1)


@pytest.mark.parametrize("kind", PACKED_TYPES)
def test_a_product_equals_its_emulation_bit_by_bit(kind: str) -> None:
    raw = random_blocks(kind, 40, WIDTH)
    table, memory = table_of(kind, raw, WIDTH)
    for rows in (1, 2, 3, 4, 5, 6, 7, 17):
        x = activations(rows, WIDTH)
        out = multiplied(table, x, 40)
        np.testing.assert_array_equal(out, emulated(kind, raw, x))
    exact = x @ dequantised(kind, raw).T
    assert np.abs(out - exact).max() < 0.02 * np.abs(exact).max()
    del memory


@pytest.mark.parametrize("kind", ["Q4_0", "Q5_1", "Q6_K", "Q8_0"])
def test_a_product_does_not_depend_on_rows_or_threads(kind: str) -> None:
    table, memory = table_of(kind, random_blocks(kind, 100, WIDTH), WIDTH)
    x = activations(17, WIDTH)
    together = multiplied(table, x, 100)
    alone = [multiplied(table, row[None], 100)[0] for row in x]
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together, multiplied(table, x, 100, threads=3))
    del memory


def digests(folder: Path, **settings: str) -> tuple[str, str]:
    """Return the digests of products and of their machine code in a new process."""
    command = [sys.executable, "-m", "tests.kernels.packed_matrices", "Q5_1", "Q6_K"]
    env = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT), **settings}
    done = subprocess.run(
        command, cwd=ROOT, env=env, check=True, capture_output=True, text=True, timeout=300
    )
    products, code = done.stdout.split()
    return products, code


@pytest.fixture(scope="module")
def own_digests(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return digests(tmp_path_factory.mktemp("own"))


@pytest.mark.parametrize(
    "name",
    [
        "avx2",
        *(
            pytest.param(each, marks=pytest.mark.thorough)
            for each in ("sse2", "avx-vnni", "sse4.2")
        ),
    ],
)
def test_other_processors_compute_the_same_products(
    tmp_path: Path, own_digests: tuple[str, str], name: str
) -> None:
    products, code = digests(tmp_path, **masked(name))
    assert products == own_digests[0]
    assert code != own_digests[1]


@pytest.mark.thorough
def test_every_start_generates_the_same_code(tmp_path: Path, own_digests: tuple[str, str]) -> None:
    assert digests(tmp_path) == own_digests


def test_the_list_of_models_knows_the_types() -> None:
    assert all(stays_quantised("llama", kind) for kind in PACKED_TYPES)
    assert not stays_quantised("llama", "Q2_K")


def test_other_types_and_widths_cannot_be_packed() -> None:
    assert can_pack("Q4_1", 3, 576)
    assert can_pack("Q4_K", 3, 512)
    assert not can_pack("Q4_K", 3, 576)
    assert not can_pack("Q2_K", 3, 512)
    assert not can_pack("F16", 3, 512)
