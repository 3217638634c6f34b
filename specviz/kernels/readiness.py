"""Compiling the kernels ahead of their first use, so that no timed path pays for it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from specviz.kernels.ahead import wait_for_it
from specviz.kernels.arrays import STORED_ONES, scratch
from specviz.kernels.kept_code import mark_as_kept
from specviz.kernels.product import multiply
from specviz.kernels.softmax import softmax
from specviz.kernels.step import CHAIN, LAYER_COLUMNS, MOST_ROWS, NO_PATHS, step
from specviz.kernels.survey import survey

USUAL = "float32"  # the number type of the pair that comes with specviz


@cache
def ready(number_type: str) -> bool:
    """Compile for this number type, unless it is done; False where the kernels do not work.

    It takes seconds the first time on a machine, afterwards the code is read from the disk.
    """
    wait_for_it()
    try:
        one = STORED_ONES[number_type]
        _multiply_little(one)
        _step_without_layers(one)
    except Exception:  # whatever a compiler may raise on a machine that nobody has seen
        return False
    if not survey_ready():
        return False
    if number_type == USUAL:
        mark_as_kept()
    return True


@cache
def survey_ready() -> bool:
    """The same for the record's kernels, which are one for all number types."""
    wait_for_it()
    try:
        _survey_little()
    except Exception:
        return False
    return True


def _multiply_little(one: Any) -> None:
    weight, out = np.full((4, 4), one), scratch(1, 4)
    multiply(one, 0, 1, weight.ctypes.data, 0, np.ones((1, 4), np.float32), out)
    if not (out == 4.0).all():
        raise ArithmeticError("A product is wrong.")


def _step_without_layers(one: Any) -> None:
    weight, caches = np.full((4, 4), one), np.full((1, 1, 4, 4), one)
    logits = scratch(1, 4)
    step(
        0,
        1,
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        0,
        0,
        CHAIN,
        NO_PATHS,
        np.zeros((0, len(LAYER_COLUMNS)), np.int64),
        np.array([weight.ctypes.data] * 3 + [0], np.int64),
        np.zeros(2, np.float32),
        np.float32(1.0),
        caches,
        caches,
        *[scratch(4, 4) for _ in ("cos", "sin")],
        scratch(MOST_ROWS, 4),
        scratch(1, MOST_ROWS, 4),
        scratch(MOST_ROWS, 12),
        scratch(MOST_ROWS, 4),
        scratch(1, MOST_ROWS, 4),
        scratch(MOST_ROWS, 8),
        scratch(MOST_ROWS, 4),
        logits,
        scratch(1, 4),
    )
    if not (logits == 4.0).all():
        raise ArithmeticError("A step is wrong.")


def _survey_little() -> None:
    law, facts = np.full((1, 4), 7.0, np.float32), np.empty((7, 1))
    softmax(law, law)
    survey(
        law,
        law,
        law,
        law,
        np.zeros(1, np.int64),
        scratch(3, 1, 4),
        np.empty((3, 1, 4), np.int64),
        facts,
    )
    if facts[0, 0] != 0.25 or facts[6, 0] != 0.0:
        raise ArithmeticError("A survey is wrong.")
