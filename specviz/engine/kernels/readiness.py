"""Compiling the kernels ahead of their first use, so that no timed path pays for it."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from specviz.engine.kernels.product import multiply
from specviz.engine.kernels.softmax import softmax
from specviz.engine.kernels.step import LAYER_COLUMNS, MOST_ROWS, step
from specviz.engine.kernels.survey import survey
from specviz.engine.kernels.tensors import address, array, like, scratch


@cache
def ready(dtype: torch.dtype) -> bool:
    """Compile for this number type, unless it is done; False where the kernels do not work.

    It takes seconds the first time on a machine, afterwards the code is read from the disk.
    """
    try:
        _multiply_little(dtype)
        _step_without_layers(dtype)
    except Exception:  # whatever a compiler may raise on a machine that nobody has seen
        return False
    return survey_ready()


@cache
def survey_ready() -> bool:
    """The same for the record's kernels, which are one for all number types."""
    try:
        _survey_little()
    except Exception:
        return False
    return True


def _multiply_little(dtype: torch.dtype) -> None:
    weight = torch.ones(4, 4, dtype=dtype)
    out = scratch(1, 4)
    multiply(like(dtype), 0, 1, address(weight), 0, np.ones((1, 4), np.float32), out)
    if not (out == 4.0).all():
        raise ArithmeticError("A product is wrong.")


def _step_without_layers(dtype: torch.dtype) -> None:
    weight, caches = torch.ones(4, 4, dtype=dtype), torch.ones(1, 1, 4, 4, dtype=dtype)
    logits = scratch(1, 4)
    step(
        0,
        1,
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        0,
        np.zeros((0, len(LAYER_COLUMNS)), np.int64),
        np.array([address(weight)] * 3 + [0], np.int64),
        np.zeros(2, np.float32),
        np.float32(1.0),
        array(caches),
        array(caches),
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
