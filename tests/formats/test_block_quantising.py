"""Quantising to the types that the gguf package cannot write, read by independent decoders."""

from __future__ import annotations

import numpy as np
import pytest

from specviz.formats.block_quantising import quantise_rows, stored_type
from tests.formats.ggml_blocks import DECODERS

# The largest step between neighbouring codes, relative to the largest absolute value, for values
# that are spread evenly around zero. IQ4_NL has steps of up to 24 at its ends.
_STEPS = {"Q4_K": 2 / 15, "Q5_K": 2 / 31, "Q6_K": 1 / 31, "IQ4_NL": 24 / 127}


def _values(rows: int, width: int) -> np.ndarray:
    return np.random.default_rng(7).uniform(-1, 1, (rows, width)).astype(np.float32)


@pytest.mark.parametrize("kind", [*_STEPS])
def test_values_are_off_by_about_half_a_step(kind: str) -> None:
    values = _values(3, 512) * np.array([[1.0], [0.01], [30.0]], np.float32)
    raw = quantise_rows(values, kind)
    decode = DECODERS[kind][1]
    size = raw.shape[1] * (256 if kind.endswith("K") else 32) // 512
    read = np.array([decode(bytes(each)) for each in raw.reshape(-1, size)]).reshape(3, 512)
    off = np.abs(read - values).max(-1) / np.abs(values).max(-1)
    assert (off < 0.62 * _STEPS[kind]).all()
    assert (off > 0.3 * _STEPS[kind]).all()  # no more codes than the type has


@pytest.mark.parametrize("kind", [*_STEPS])
def test_zeros_stay_zeros(kind: str) -> None:
    raw = quantise_rows(np.zeros((1, 256), np.float32), kind)
    size = len(raw[0]) if kind.endswith("K") else 18
    assert not np.any(DECODERS[kind][1](bytes(raw[0, :size])))


@pytest.mark.parametrize(
    ("kind", "width", "stored"),
    [
        ("Q4_K", 512, "Q4_K"), ("Q4_K", 576, "Q5_0"), ("Q5_K", 576, "Q5_1"), ("Q6_K", 576, "Q8_0"),
        ("IQ4_NL", 576, "IQ4_NL"), ("Q8_0", 48, None), ("Q6_K", 48, None),
    ],
)  # fmt: skip
def test_the_width_decides_the_stored_type(kind: str, width: int, stored: str | None) -> None:
    assert stored_type(kind, width) == stored
